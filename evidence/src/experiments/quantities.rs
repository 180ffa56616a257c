//! The quantities that several experiments measure.

use crate::quantity::{
    BytesPerByte, BytesPerKey, KeysPerSecond, MegabytesPerSecond, Microseconds, OperationsPerSecond, PerGet,
    PerPut, Quantity, Share,
};

/// Bytes written to the device per byte of the records that were put.
pub const WRITE_AMPLIFICATION: Quantity<BytesPerByte> = Quantity::lower("write amplification");
/// Bytes read from the device per byte of the records that gets return.
pub const READ_AMPLIFICATION: Quantity<BytesPerByte> = Quantity::lower("read amplification");
/// Bytes of all files per byte of the records.
pub const SPACE_AMPLIFICATION: Quantity<BytesPerByte> = Quantity::lower("space amplification");
/// The most of it while records are written.
pub const SPACE_MOST: Quantity<BytesPerByte> = Quantity::lower("space amplification, most");
/// Memory when no background work is left.
pub const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory");
/// The most memory.
pub const MEMORY_MOST: Quantity<BytesPerKey> = Quantity::lower("memory, most");
/// Reads of the device per key looked up.
pub const READS_PER_GET: Quantity<PerGet> = Quantity::lower("reads");
/// Reads of the device per key looked up that does not exist.
pub const READS_PER_MISS: Quantity<PerGet> = Quantity::lower("reads of a missing key");
/// The mean time of a get.
pub const GET_TIME: Quantity<Microseconds> = Quantity::lower("mean time of a get");
/// The mean time of a put, with the background work that it leaves.
pub const PUT_TIME: Quantity<Microseconds> = Quantity::lower("mean time of a put, settled");
/// Operations of any kind.
pub const OPERATIONS: Quantity<OperationsPerSecond> = Quantity::higher("operations");
/// Operations of any kind, with the background work that they leave.
pub const OPERATIONS_SETTLED: Quantity<OperationsPerSecond> = Quantity::higher("operations, settled");
/// Gets.
pub const GETS: Quantity<OperationsPerSecond> = Quantity::higher("gets");
/// Puts, with the background work that they leave.
pub const PUTS: Quantity<OperationsPerSecond> = Quantity::higher("puts, settled");
/// Keys that are inserted or indexed.
pub const KEYS_PER_S: Quantity<KeysPerSecond> = Quantity::higher("keys");
/// A rate of bytes.
pub const MB_PER_S: Quantity<MegabytesPerSecond> = Quantity::higher("bytes");
/// Records appended to logs per put: the put itself, and what cleaning moves.
pub const APPENDS: Quantity<PerPut> = Quantity::lower("appends");
/// The share of gets that find their key.
pub const HITS: Quantity<Share> = Quantity::higher("gets that are served");
