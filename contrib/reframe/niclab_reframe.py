"""niclab as a test of ReFrame: an experiment on one host, or between two hosts of a Slurm job."""

import atexit
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import PerformanceError, SanityError
from reframe.utility import ScopedDict, osext

from niclab_figures import Figure, ResultError, read_figures

#: The result directory, the exit code of niclab, and the nodes of a Slurm job, a line each: in the
#: stage directory.
RESULT, EXIT_CODE, NODES = "result", "niclab.code", "niclab.nodes"
#: The beginning of the name of a device on the second node of a Slurm job.
ON_PEER = "exec:srun --overlap -N1 -n1 --cpu-bind=none -w $NICLAB_PEER"
#: Name of the performance variable that counts the figures without a verdict.
MARKED = "marked-figures"


class NiclabExperiment(rfm.RunOnlyRegressionTest):
    """Runs an experiment on a host and reports its figures as performance variables.

    A figure has the name `PLOT/CURVE/PLACE`, and its interval has the names `NAME/low` and
    `NAME/high`. A figure with a mark, other than `few-samples`, is counted by `marked-figures` and
    has no variable. If a reference names it, or names a figure that the run does not have, the test
    fails.
    """

    #: The program on the host: a name in its PATH, or a path.
    niclab = variable(str, value="niclab")
    #: The experiment.
    experiment = variable(str)
    #: The device. The shell of the job expands `$NAME` in it.
    device = variable(str, value="soft")
    #: The tester's port, of a testbed of two hosts: `local=linux:eth1`. The device is the other port
    #: then, and the shell expands `$NAME` here, too.
    tester = variable(str, value="")
    #: More arguments of `niclab run`, as the shell reads them: `--grid short --repeats 6`.
    arguments = variable(str, value="")
    #: Patterns of the names of the figures that are reported.
    figures = variable(typ.List[str], value=["*"])
    #: Name of the result directory, after the run: the host, or the hosts joined by `+`.
    result = variable(str, value=RESULT)

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1
    num_tasks_per_node = 1
    #: Another job on the host would disturb the measurement.
    exclusive_access = True

    @run_before("run")
    def set_command(self) -> None:
        # A launcher may give a task one core. niclab chooses its cores itself.
        self.job.launcher = getlauncher("local")()
        self.executable = shlex.quote(self.niclab)
        experiment, device = shlex.quote(self.experiment), _expanded(self.device)
        self.executable_opts = ["run", experiment, "--device", device, "--output", RESULT]
        if self.tester:
            self.executable_opts += ["--tester", _expanded(self.tester)]
        self.executable_opts.append(self.arguments)
        # ReFrame does not learn the nodes of a job that Slurm has forgotten.
        nodes = f'scontrol show hostnames "$SLURM_JOB_NODELIST" >{NODES}'
        self.prerun_cmds = [*self.prerun_cmds, f'[ -z "$SLURM_JOB_NODELIST" ] || {nodes}']
        # The ssh back end fetches files only from a job that succeeds, and Slurm's `squeue` knows
        # no exit code.
        self.postrun_cmds = [*self.postrun_cmds, f"echo $? >{EXIT_CODE}"]

    @run_before("run")
    def prepare_removal(self) -> None:
        # After Ctrl-C, ReFrame waits for the job and calls no hook.
        atexit.register(self.remove_remote_directory)

    @run_after("run")
    def remove_remote_directory(self) -> None:
        """Removes the directory of the job on the host of the ssh back end: ReFrame leaves it."""
        atexit.unregister(self.remove_remote_directory)
        directory = getattr(self.job, "remotedir", None)
        if not directory or not re.fullmatch(r"rfm\.\w+", Path(directory).name):
            return
        options = " ".join(self.job.ssh_options)
        command = f"ssh -o BatchMode=yes {options} {self.job.host} rm -rf {shlex.quote(directory)}"
        removed = osext.run_command(command, log=False)
        if removed.returncode != 0:
            self.logger.warning(f"{directory} is left on {self.job.host}: {removed.stderr.strip()}")

    @run_after("run")
    def name_result(self) -> None:
        """Gives the result directory the name of its host, so that several can be compared."""
        stage = Path(self.stagedir)
        try:
            hosts = (stage / NODES).read_text().split()
        except OSError:
            hosts = self.job.nodelist or ["unknown-host"]
        self.result = re.sub(r"[^\w.+-]", "-", "+".join(hosts))
        if (stage / RESULT).is_dir():
            (stage / RESULT).rename(stage / self.result)
        self.keep_files = [*self.keep_files, self.result]

    @sanity_function
    def run_is_complete(self) -> bool:
        stage = Path(self.stagedir)
        hosts = self.result
        try:
            code = (stage / EXIT_CODE).read_text().strip()
        except OSError:
            raise SanityError(f"the job on {hosts} ended before niclab: {self._said()}") from None
        if code == "127":
            hint = "install it there, or set the variable `niclab` to its path"
            raise SanityError(f"{self.niclab} is not on {hosts}: {hint}: {self._said()}")
        if code != "0":
            raise SanityError(f"niclab ended with exit code {code} on {hosts}: {self._said()}")
        try:
            read_figures(stage / self.result)
        except ResultError as error:
            raise SanityError(f"{hosts}: {error}") from None
        return True

    @run_before("performance")
    def set_figures(self) -> None:
        figures = read_figures(Path(self.stagedir) / self.result)
        self._check_references(figures)
        reported = [figure for figure in figures if self._is_reported(figure)]
        if not reported:
            names = ", ".join(figure.name for figure in figures[:5])
            count = f"{len(figures)} figures, such as {names}"
            raise PerformanceError(f"no figure matches {self.figures}; the run has {count}")
        sound = [figure for figure in reported if not figure.marks]
        values = [(name, value, of.unit) for of in sound for name, value in of.values().items()]
        values.append((MARKED, len(reported) - len(sound), "1"))
        self.perf_variables = {
            name: sn.make_performance_function(lambda value=value: value, unit)
            for name, value, unit in values
        }

    def _is_reported(self, figure: Figure) -> bool:
        return any(fnmatchcase(figure.name, pattern) for pattern in self.figures)

    def _check_references(self, figures: list[Figure]) -> None:
        """ReFrame itself passes over a reference without a figure."""
        marks = {name: of.marks for of in figures for name in of.values() if self._is_reported(of)}
        marks[MARKED] = ()
        for name in self._references():
            if name not in marks:
                has_median = name.removesuffix("/low").removesuffix("/high") in marks
                lacks = "interval for it: --repeats 6 or more" if has_median else "such figure"
                raise PerformanceError(f"{name} has a reference, but this run has no {lacks}")
            if marks[name]:
                words = ", ".join(marks[name])
                hint = "measure again, for instance with --max-retries"
                raise PerformanceError(f"{name} has a reference, but is marked {words}: {hint}")

    def _references(self) -> dict[str, object]:
        """The references for this partition, by the names of the figures."""
        references = self.reference
        if not isinstance(references, ScopedDict):
            if references.index:
                try:
                    return references[self]
                except KeyError:
                    return {}
            references = ScopedDict(references.data)
        return references.scope(self.current_partition.fullname)

    def _said(self) -> str:
        """The last words of the job: those of niclab from its last message on."""
        lines = (Path(self.stagedir) / str(self.stderr)).read_text(errors="replace").splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("niclab: ")]
        last = lines[starts[-1] :] if starts else lines[-3:]
        return " ".join(line.strip() for line in last) or "it said nothing"


class NiclabPair(NiclabExperiment):
    """Runs an experiment between the two nodes of a Slurm job.

    niclab runs on the first node. `$NICLAB_PEER` is the name of the second, which a device reaches
    by `exec:srun … =DEVICE` or by `ssh://$NICLAB_PEER=DEVICE`. With a `tester` on the first node,
    both ports are the ends of a cable.
    """

    device = f"{ON_PEER}=soft"
    num_tasks = 2

    @run_before("run")
    def find_peer(self) -> None:
        self.prerun_cmds = [*self.prerun_cmds, f"NICLAB_PEER=$(sed -n 2p {NODES})"]


def _expanded(word: str) -> str:
    """One word of the shell, in which it expands variables."""
    return '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
