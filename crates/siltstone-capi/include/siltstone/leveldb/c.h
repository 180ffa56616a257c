/* LevelDB's header of this name, for programs that are compiled with -I for the directory above this one. */

#include "../leveldb_compat.h"
