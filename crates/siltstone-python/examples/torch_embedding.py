"""Rows of an embedding table, and training samples, from a store that may exceed memory, for PyTorch.

`Embedding` looks up rows as tensors. `Samples` is an iterable dataset over a dictionary: each worker of a data loader opens the
file by its path and returns its share of the records.
"""

import itertools

import numpy
import siltstone
import torch


class Embedding(torch.nn.Module):
    """Frozen rows by id; zeros for ids that the table does not have."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, ids):
        rows, _ = self.table.get_many(ids.reshape(-1).numpy())
        return torch.from_numpy(rows).reshape(*ids.shape, *rows.shape[1:])


class Samples(torch.utils.data.IterableDataset):
    """Pairs (id, row) of a dictionary. It is pickled as its path."""

    def __init__(self, dictionary):
        self.dictionary = dictionary

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number, row in itertools.islice(self.dictionary.items(), first, None, step):
            yield number, torch.from_numpy(numpy.array(row))


def main(folder):
    """Builds both, and returns the sum of a batch and the number of samples that two workers return."""
    ids = numpy.arange(1000, dtype=numpy.int64)
    rows = numpy.ones((1000, 8), dtype=numpy.float32) * ids[:, None]
    with siltstone.open(f"{folder}/table", keys="int", values="float32[8]") as table:
        table.put_many(ids, rows)
        batch = Embedding(table)(torch.tensor([[1, 2], [3, 5000]]))
    samples = zip(ids.tolist(), rows)
    dictionary = siltstone.Dictionary.build(f"{folder}/rows", samples, keys="int", values="float32[8]", fixed=(8, 32))
    loader = torch.utils.data.DataLoader(Samples(dictionary), batch_size=100, num_workers=2)
    return float(batch.sum()), sum(len(numbers) for numbers, _ in loader)
