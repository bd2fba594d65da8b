"""How many numbers are in memory at one time while a function of tensors runs, forward and backward."""

from __future__ import annotations

import functools
import weakref

from grader.torch_calls import torch


def memory_watch(known=()):
    """A context that counts the numbers in tensors made inside it, as long as anybody holds them.

    What holds a tensor may be a variable, a list, or the graph that keeps it for its backward pass. Tensors that share
    memory count once, the tensors `known` not at all. Nor do bytes (torch.uint8): states of random generators, which
    torch's checkpoint keeps.

    Attributes: `largest`, the size of the largest tensor, and `peak`, the most numbers that were there at one time.
    """
    return _watch_class()(known)


@functools.cache
def _watch_class():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self, known):
            super().__init__()
            self._known = {tensor.untyped_storage()._cdata for tensor in known}
            self._alive = {}  # by storage: a reference that tells when it dies
            self._now = self.largest = self.peak = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for made in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(made, torch.Tensor) and made.dtype != torch.uint8:
                    self._see(made.untyped_storage(), made.itemsize)
            return result

        def _see(self, storage, itemsize):
            place = storage._cdata
            if place in self._known or place in self._alive:
                return
            size = storage.nbytes() // itemsize

            def gone(_):
                del self._alive[place]
                self._now -= size

            # The object that stands for a storage lives exactly as long as the storage itself.
            self._alive[place] = weakref.ref(storage, gone)
            self._now += size
            self.largest, self.peak = max(self.largest, size), max(self.peak, self._now)

    return Watch
