# SPDX-License-Identifier: Apache-2.0
"""One function over many tasks: in this process, on processes of this machine, or on the workers of a Dask cluster; the
results are the same and in the order of the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from ms_custom_ops._version import __version__
from ms_custom_ops.errors import MsCustomOpsError, describe
from ms_custom_ops.registry import load_package


def _run(version: str, folders: Sequence[str], function: Callable[..., Any], task: tuple) -> Any:
    """The function on one task, in any process; ``folders`` are users' ops that it needs."""
    if version != __version__:
        raise MsCustomOpsError(
            describe("worker", "ms_custom_ops", __version__, f"{version}, as where the work is from")
        )
    for folder in folders:
        load_package(folder, "--ops")
    return function(*task)


def spread(
    verb: str, function: Callable[..., Any], tasks: Sequence[tuple], *, workers: int = 1, scheduler: str | None = None,
    folders: Sequence[str] = (),
) -> Iterator[Any]:  # fmt: skip
    """``function(*task)`` of each task, in their order, each as soon as it and those before it are there.

    Args:
        verb: who asks, for messages.
        function: of a module that the workers can import.
        tasks: arguments and results can be pickled.
        workers: processes of this machine; 1: this one.
        scheduler: address of a Dask scheduler in their place. The work of a worker that is lost is done again by
            others; a task whose workers are lost again and again ends in an error.
        folders: folders of users' ops that the tasks need; for a cluster at the same place on its machines.

    Raises:
        MsCustomOpsError: distributed is missing, no scheduler answers, a worker has another version of this package, or
            a task loses its workers. What the function raises.
    """
    if scheduler is not None:
        yield from _on_dask(verb, function, tasks, scheduler, folders)
    elif workers > 1 and len(tasks) > 1:
        # spawn: a forked child would inherit the engine's threads.
        with ProcessPoolExecutor(min(workers, len(tasks)), get_context("spawn")) as pool:
            futures = [pool.submit(_run, __version__, folders, function, task) for task in tasks]
            for future in futures:
                yield future.result()
    else:
        for task in tasks:
            yield function(*task)


def _on_dask(
    verb: str, function: Callable[..., Any], tasks: Sequence[tuple], scheduler: str, folders: Sequence[str]
) -> Iterator[Any]:
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        given = "given, but dask.distributed is not installed"
        accepted = "pip install 'ms_custom_ops[dask]', or processes of this machine"
        raise MsCustomOpsError(describe(verb, "--scheduler", given, accepted)) from None
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        accepted = "the address of a running scheduler, tcp://HOST:8786"
        raise MsCustomOpsError(describe(verb, "--scheduler", f"{scheduler} ({error})", accepted)) from None
    with client:
        futures = [client.submit(_run, __version__, folders, function, task, pure=False) for task in tasks]
        for future, task in zip(futures, tasks, strict=True):
            try:
                yield future.result()
            except KilledWorker:
                given = f"lost each time it worked on {', '.join(map(str, task))}"
                raise MsCustomOpsError(describe(verb, "worker", given, "a task that a worker survives")) from None
