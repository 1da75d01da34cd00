"""Where runs are done: threads, processes, a Ray cluster.

All pull runs as there is room for them, so that what is claimed is what is about to begin, and
refill before they hand on an outcome, so that nothing idles while it is written.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_any
from typing import TYPE_CHECKING, Any, Protocol

from dumbbell._errors import MissingExtraError, UsageError
from dumbbell._registry import builtin
from dumbbell.studies._contract import Measure, Outcome, Run
from dumbbell.studies._store import reason

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

POLL_S = 0.2
"""A wait without end would not notice Ctrl-C on every platform."""
_KNOCK_S = 5.0
_DEATHS = 2
"""A run during which this many workers died is taken for the reason."""


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def holds_interpreter(run: Run) -> bool:
    """Whether a run may have a controller written in Python, so that threads would take turns."""
    known = builtin().controllers
    flows = run.scenario.get("flows", ())
    return any(flow.get("cc", "cubic") not in known for flow in flows)


def guarded(measure: Measure, run: Run) -> Outcome:
    """The outcome of a run, whatever happens in it."""
    try:
        return measure(run)
    except BaseException as error:  # A panic of the engine is no Exception.
        return Outcome(run, error=f"{type(error).__name__}: {error}")


class _Pool(Protocol):
    """Runs that are under way."""

    def room(self) -> bool:
        """Whether another run would begin at once, or soon."""
        ...

    def submit(self, run: Run) -> None: ...

    def busy(self) -> bool: ...

    def collect(self) -> list[Outcome]:
        """What has finished; waits for it, but not for longer than POLL_S."""
        ...

    def close(self) -> None:
        """End what is under way, and the workers."""
        ...


def _drive(pool: _Pool, runs: Iterable[Run]) -> Generator[Outcome, None, None]:
    waiting = iter(runs)
    finished: list[Outcome] = []
    try:
        while True:
            while pool.room() and (run := next(waiting, None)) is not None:
                pool.submit(run)
            yield from finished
            if not pool.busy():
                return
            finished = pool.collect()
    finally:
        pool.close()


class Threads:
    """Threads of this process: the engine runs beside the interpreter.

    `going` says whether the generator is still open; a measure that asks can end early.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or processors()
        self._stop = threading.Event()

    def going(self) -> bool:
        """False once what is under way shall end."""
        return not self._stop.is_set()

    def outcomes(self, measure: Measure, runs: Iterable[Run]) -> Generator[Outcome, None, None]:
        """See Executor."""
        self._stop.clear()
        return _drive(_ThreadPool(self.workers, self._stop, measure), runs)


class _ThreadPool:
    def __init__(self, workers: int, stop: threading.Event, measure: Measure) -> None:
        self._workers = workers
        self._stop = stop
        self._measure = measure
        self._threads = ThreadPoolExecutor(workers)
        self._pending: set[Future[Outcome]] = set()

    def room(self) -> bool:
        return len(self._pending) < self._workers

    def submit(self, run: Run) -> None:
        self._pending.add(self._threads.submit(guarded, self._measure, run))

    def busy(self) -> bool:
        return bool(self._pending)

    def collect(self) -> list[Outcome]:
        finished, self._pending = wait(self._pending, POLL_S, FIRST_COMPLETED)
        return [future.result() for future in finished]

    def close(self) -> None:
        self._stop.set()
        self._threads.shutdown(cancel_futures=True)


class Processes:
    """Processes of this machine, for controllers written in Python, which hold the interpreter.

    The measure and what it returns are pickled. Processes are started afresh, not forked: a program
    that uses this needs `if __name__ == "__main__":`. A run during which the process dies
    is done once more in a new one, and has failed if that dies as well.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or processors()

    def outcomes(self, measure: Measure, runs: Iterable[Run]) -> Generator[Outcome, None, None]:
        """See Executor."""
        return _drive(_ProcessPool(self.workers, measure), runs)


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection
    run: Run | None = None


class _ProcessPool:
    """A pipe to each worker, so that it is known whose run a dead one had, and so that one whose
    parent was killed reads the end of its pipe."""

    def __init__(self, workers: int, measure: Measure) -> None:
        self._measure = measure
        self._free: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}
        self._room = workers
        self._deaths: Counter[str] = Counter()

    def room(self) -> bool:
        return len(self._busy) < self._room

    def submit(self, run: Run) -> None:
        worker = self._free.pop() if self._free else self._start()
        worker.run = run
        try:
            worker.connection.send(run)
        except OSError:
            # It died while it was idle, which says nothing of the run.
            self._end(worker)
            self.submit(run)
            return
        self._busy[worker.connection] = worker

    def busy(self) -> bool:
        return bool(self._busy)

    def collect(self) -> list[Outcome]:
        outcomes = []
        for connection in wait_any(list(self._busy), POLL_S):
            assert isinstance(connection, Connection)
            worker = self._busy.pop(connection)
            try:
                outcomes.append(connection.recv())
                self._free.append(worker)
            except (EOFError, OSError):
                outcomes += self._died(worker)
        return outcomes

    def close(self) -> None:
        for worker in (*self._free, *self._busy.values()):
            worker.process.kill()
        for worker in (*self._free, *self._busy.values()):
            self._end(worker)

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._measure), daemon=True)
        # Ctrl-C goes to the whole process group, but who answers it is the parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        return _Worker(process, ours)

    def _end(self, worker: _Worker) -> None:
        worker.connection.close()
        worker.process.join()

    def _died(self, worker: _Worker) -> list[Outcome]:
        self._end(worker)
        run, status = worker.run, worker.process.exitcode or 0
        assert run is not None
        self._deaths[run.key] += 1
        if self._deaths[run.key] < _DEATHS:
            self.submit(run)
            return []
        how = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return [Outcome(run, error=f"the process that ran it died {_DEATHS} times: {how}")]


def _serve(connection: Connection, measure: Measure) -> None:
    """What a worker does: runs that it is sent, until the pipe ends."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            run = connection.recv()
        except EOFError:
            return
        connection.send(guarded(measure, run))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def default_executor(runs: Iterable[Run], workers: int | None = None) -> Threads | Processes:
    """Threads, or processes if there are controllers written in Python."""
    return Processes(workers) if any(map(holds_interpreter, runs)) else Threads(workers)


class Ray:
    """A Ray cluster: one task a run, which needs one processor.

    `address` as in `ray.init`; without one the cluster that RAY_ADDRESS names or that runs here,
    else one is started here with `workers` processors. Tasks whose worker or node dies are done
    again, at most `retries` times; outcomes come back to this process.
    """

    def __init__(
        self, workers: int | None = None, *, address: str | None = None, retries: int = 5
    ) -> None:
        self.workers = workers
        self.address = address
        self.retries = retries

    def outcomes(self, measure: Measure, runs: Iterable[Run]) -> Generator[Outcome, None, None]:
        """See Executor. Raises MissingExtraError, UsageError if there is no such cluster."""
        try:
            import ray
        except ImportError:
            raise MissingExtraError("the executor ray", "ray") from None
        return _drive(_RayPool(self, ray, measure), runs)


class _RayPool:
    def __init__(self, executor: Ray, ray: Any, measure: Measure) -> None:
        self._ray = ray
        self._owned = not ray.is_initialized()
        if self._owned:
            _connect(ray, executor)
        self._most = executor.workers
        self._retries = executor.retries
        self._measure = measure
        task = ray.remote(guarded)
        options = {"num_cpus": 1, "max_retries": executor.retries, "name": "dumbbell run"}
        self._task = task.options(**options)
        self._pending: dict[Any, Run] = {}

    def room(self) -> bool:
        # Nodes come and go, all of them perhaps, but a task waits for the next. One more for each
        # that runs hides the way there and back.
        processors = max(1, int(self._ray.cluster_resources().get("CPU", 0)))
        return len(self._pending) < 2 * min(processors, self._most or processors)

    def submit(self, run: Run) -> None:
        self._pending[self._task.remote(self._measure, run)] = run

    def busy(self) -> bool:
        return bool(self._pending)

    def collect(self) -> list[Outcome]:
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=POLL_S)
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        run = self._pending.pop(reference)
        try:
            outcome: Outcome = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # Not of the run, which is guarded: the node may lack a package. Above is a traceback.
            return Outcome(run, error=f"Ray: {str(error).strip().splitlines()[-1]}")
        except self._ray.exceptions.RayError as error:
            why = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome(run, error=f"Ray gave up after {self._retries} retries: {why[0]}")
        return outcome

    def close(self) -> None:
        for reference in self._pending:
            self._ray.cancel(reference, force=True)
        if self._owned:
            self._ray.shutdown()


def _connect(ray: Any, executor: Ray) -> None:
    # A run of a study is nobody else's business.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": "error"}
    address = executor.address
    try:
        if address is not None:
            _knock(address)
        ray.init(address=address or "auto", **quiet)
    except OSError as error:
        if address is not None:
            why = reason(error).splitlines()[0]
            raise UsageError(f"--address {address}: no Ray cluster answers: {why}") from None
        workers = executor.workers or processors()
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)


def _knock(address: str) -> None:
    """Raise OSError where nobody listens, which takes Ray itself a minute and a half."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
