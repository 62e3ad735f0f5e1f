"""The names under which agents see the tools of a task's MCP servers."""

import re

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.environments.benchmarks.harbor.mcp_servers import names_for_models
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task

pytestmark = pytest.mark.thorough
TAKEN = ("bash", "read_file")
SERVER = '[[environment.mcp_servers]]\nname = "sums"\ntransport = "streamable-http"\nurl = "http://sums/mcp"\n'


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([("a", "get"), ("b", "put")], ["get", "put"]),
        ([("my sums", "bash"), ("a", "submit")], ["my_sums_bash", "a_submit"]),
        ([("b", "get"), ("a", "get")], ["b_get", "a_get"]),
        ([("a", "x.get"), ("b", "files/read ünd"), ("a", "")], ["x_get", "files_read__nd", "_"]),
        ([("a", "1st"), ("a", "-v")], ["_1st", "_-v"]),
        ([("a", "x.y"), ("a", "x/y"), ("a", "x_y")], ["a_x_y", "a_x_y_2", "a_x_y_3"]),
        ([("a", "b_c"), ("a_b", "c"), ("a", "c")], ["b_c", "a_b_c", "a_c"]),
        ([("a", "b_c"), ("a_b", "c"), ("d", "b_c"), ("e", "c")], ["a_b_c", "a_b_c_2", "d_b_c", "e_c"]),
        ([("a", "t" * 70), ("a", "t" * 71)], ["a_" + "t" * 62, "a_" + "t" * 60 + "_2"]),
    ],
)
def test_names_are_distinct_and_accepted(tools, names):
    """By the documented pattern of OpenAI, and Gemini's first character; in whatever order a server lists its tools."""
    found = names_for_models(tools, TAKEN)
    assert found == names
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name) for name in found)
    assert len({*found, *TAKEN, "ask_user", "submit"}) == len(found) + len(TAKEN) + 2
    assert names_for_models(tools[::-1], TAKEN) == names[::-1]


def test_two_servers_of_one_name_refuse_the_task(tmp_path):
    """The reason names the task and the servers."""
    services = "services: {sums: {image: x}}\n"
    write_task(tmp_path / "hello", config=CONFIG + 2 * SERVER, **{"environment__docker-compose.yaml": services})
    with pytest.raises(ExperimentError, match="2 servers of hello are named 'sums'; rename one"):
        open_harbor({"folder": "."}, tmp_path, GraderSpec())
