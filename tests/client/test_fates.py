"""What became of an operation, told after everything that can happen to its sendings; a scripted node says what."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest

import raftmeta
from raftmeta import aio
from raftmeta.bindings import verbs
from tests.client.raw import FakeNode
from tests.wire.names import Status

APPLIED = msgpack.packb([0, 5, [True, [None]]])


def done(answer: Any) -> None:
    answer(Status.OK, 5, APPLIED)


class Steps:
    """A script that does the next step at each command that comes; the last one goes on."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    def __call__(self, node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if step == "drop":
            node.drop()
        elif step == "done":
            done(answer)
        elif step != "silence":
            answer(step)


def sequences(node: FakeNode) -> list[tuple[int, int]]:
    """(session, sequence) of the commands as they came, without the client's farewell."""
    decoded = [msgpack.unpackb(command) for command in node.commands]
    return [(one[1], one[2]) for one in decoded if one[0] == 1]


@pytest.mark.asyncio
async def test_a_command_is_sent_again_under_the_same_sequence() -> None:
    """Twice the connection breaks before the answer: the third sending is the same command."""
    async with FakeNode(Steps("drop", "drop", "done")) as node, aio.Client(node.url) as client:
        assert int(await client.put("k", "1")) == 5
        assert len(sequences(node)) == 3 and len(set(sequences(node))) == 1
        assert client.metrics()["requests_repeated"] == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [Status.OVERLOADED, Status.NO_SPACE])
async def test_a_refusal_of_the_only_sending_is_not_executed_at_once(status: int) -> None:
    async with FakeNode(Steps(status, "done")) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.NotExecuted):
            await client.put("k", "1")
        assert len(sequences(node)) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [Status.OVERLOADED, Status.NO_SPACE, Status.NO_LEADER, Status.OUTCOME_UNKNOWN])
async def test_a_refusal_of_a_second_sending_says_nothing_of_the_first(status: int) -> None:
    """The first may be in a log: the client goes on until it has a result."""
    async with FakeNode(Steps("drop", status, "done")) as node, aio.Client(node.url) as client:
        assert int(await client.put("k", "1")) == 5
        assert len(set(sequences(node))) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [Status.NO_LEADER, Status.NOT_READY, Status.NODE_CLOSED])
async def test_a_node_that_cannot_now_is_asked_again(status: int) -> None:
    async with FakeNode(Steps(status, status, "done")) as node, aio.Client(node.url) as client:
        assert int(await client.put("k", "1")) == 5


@pytest.mark.asyncio
async def test_a_request_for_znodes_names_the_one_before_it() -> None:
    """Three are sent without waiting, and each names the sequence before it; one that came too early is sent again."""
    applied = msgpack.packb([0, 5, []])
    script = Steps("silence", Status.OUT_OF_ORDER, "done")

    def answer_all(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        script(node, request, lambda status, *_: answer(status, 5, applied if status == Status.OK else b""))

    async with FakeNode(answer_all) as node, aio.Client(node.url) as client:
        await client.ready()
        before, futures = None, []
        for _ in range(3):
            request = verbs.znodes([], after=before)
            futures.append(client._carry(request, client._prepare(request, 30.0)))
            before = request
        replies = await asyncio.gather(*futures[1:])
        futures[0].cancel()
        assert [reply.results for reply in replies] == [[], []]
        sent = [one for one in map(msgpack.unpackb, node.commands) if one[0] == 15]
        assert [(one[2], one[-1]) for one in sent] == [(1, 0), (2, 1), (3, 2), (2, 1)]


@pytest.mark.asyncio
async def test_a_refusal_of_znodes_tells_position_and_code() -> None:
    """The body of the refusal, as the machine writes it."""
    body = msgpack.packb([Status.ZNODE_REFUSED, 9, [3, -110]])

    def refuse(_node: FakeNode, _request: dict[str, Any], answer: Any) -> None:
        answer(Status.ZNODE_REFUSED, 9, body)

    async with FakeNode(refuse) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.ZnodeRefused) as refused:
            await client.znodes([])
        assert (refused.value.position, refused.value.code, refused.value.revision) == (3, -110, 9)


@pytest.mark.asyncio
async def test_a_session_that_ended_before_the_command_is_replaced() -> None:
    """The only sending was certainly not applied: it is encoded anew in another session."""
    async with FakeNode(Steps(Status.SESSION_UNKNOWN, "done")) as node, aio.Client(node.url) as client:
        assert int(await client.put("k", "1")) == 5
        first, second = sequences(node)
        assert first[0] != second[0] and node.sessions == 2


@pytest.mark.asyncio
async def test_a_session_that_ended_under_a_command_leaves_its_outcome_unknown() -> None:
    """It is never sent in the name of another session: that could apply it twice."""
    async with FakeNode(Steps("drop", Status.SESSION_UNKNOWN, "done")) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.OutcomeUnknown) as caught:
            await client.put("k", "1")
        assert caught.value.ticket is None and len(sequences(node)) == 2
        assert int(await client.put("k", "2")) == 5 and node.sessions == 2


@pytest.mark.asyncio
async def test_a_forgotten_result_is_an_unknown_outcome() -> None:
    async with FakeNode(Steps(Status.RESULT_EVICTED)) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.OutcomeUnknown):
            await client.put("k", "1")


@pytest.mark.asyncio
async def test_a_time_out_after_sending_leaves_a_ticket_that_goes_on() -> None:
    """The same operation: its answer comes later, after the connection broke."""
    gate: list[Any] = []

    def script(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        if gate:
            done(answer)

    async with FakeNode(script) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.OutcomeTimeout) as caught:
            await client.put("k", "1", timeout_s=0.1)
        assert isinstance(caught.value, TimeoutError) and not caught.value.ticket.is_done
        with pytest.raises(raftmeta.OutcomeTimeout):
            await caught.value.ticket.result(0.05)
        gate.append(True)
        node.drop()
        assert int(await caught.value.ticket.result(30)) == 5
        assert len(set(sequences(node))) == 1


@pytest.mark.asyncio
async def test_a_read_that_times_out_was_not_made() -> None:
    async with FakeNode(Steps("silence")) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.Withdrawn) as caught:
            await client.get("k", timeout_s=0.05)
        assert isinstance(caught.value, TimeoutError)


@pytest.mark.asyncio
async def test_without_any_node_a_command_is_certainly_not_executed() -> None:
    async with aio.Client("raft://127.0.0.1:1") as client:
        with pytest.raises(raftmeta.ReadyTimeout) as caught:
            await client.put("k", "1", timeout_s=0.1)
        assert isinstance(caught.value, raftmeta.NotExecuted | TimeoutError)


@pytest.mark.asyncio
async def test_closing_tells_whoever_waits() -> None:
    """What was sent may be executed; what was not is not."""
    async with FakeNode(Steps("silence")) as node:
        client = aio.Client(node.url)
        waiting = asyncio.ensure_future(client.put("k", "1", timeout_s=None))
        while not node.commands:
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises(raftmeta.OutcomeUnknown):
            await waiting
        with pytest.raises(raftmeta.NodeClosed):
            await client.put("k", "2")


@pytest.mark.asyncio
async def test_a_cancelled_call_spoils_nobody_elses() -> None:
    """Its answer is thrown away when it comes; the sequences below stay in order."""
    held: list[Any] = []

    def script(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        held.append(answer)

    async with FakeNode(script) as node, aio.Client(node.url) as client:
        first, second = (asyncio.ensure_future(client.put("k", value)) for value in ("1", "2"))
        while len(held) < 2:
            await asyncio.sleep(0)
        first.cancel()
        for answer in held:
            done(answer)
        assert int(await second) == 5
        assert first.cancelled() or (await asyncio.wait([first]))
        assert client.channel.encoder.lowest_unanswered == 3
        held.clear()


@pytest.mark.asyncio
async def test_a_command_says_only_of_answered_ones_that_they_are() -> None:
    """thesis 6.3: the node forgets the results of what a client says to have. Answers come in any order: as long as the
    first command waits, every later one says that nothing is answered."""
    held: list[Any] = []

    def script(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        held.append(answer)

    async def begun(client: aio.Client, value: str) -> asyncio.Future[Any]:
        before = len(held)
        call = asyncio.ensure_future(client.put("k", value))
        while len(held) == before:
            await asyncio.sleep(0)
        return call

    async with FakeNode(script) as node, aio.Client(node.url) as client:
        calls = [await begun(client, value) for value in "abc"]
        done(held[1])
        await calls[1]
        calls.append(await begun(client, "d"))
        done(held[2])
        await calls[2]
        calls.append(await begun(client, "e"))
        done(held[0])
        await calls[0]
        calls.append(await begun(client, "f"))
        commands = [msgpack.unpackb(command) for command in node.commands]
        said = [(one[2], one[3]) for one in commands if one[0] == 1]
        assert said == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 4)]
        for answer in held[3:]:
            done(answer)
        await asyncio.gather(*calls)


@pytest.mark.asyncio
async def test_too_many_commands_under_way_are_refused_before_results_could_be_lost() -> None:
    """The node keeps 100 results of a session: the 101st command waits for nobody."""
    async with FakeNode(Steps("silence")) as node, aio.Client(node.url) as client:
        waiting = [asyncio.ensure_future(client.put("k", "1", timeout_s=None)) for _ in range(100)]
        while len(node.commands) < 100:
            await asyncio.sleep(0)
        with pytest.raises(raftmeta.Overloaded):
            await client.put("k", "1")
        for one in waiting:
            one.cancel()


@pytest.mark.asyncio
async def test_a_range_with_a_delimiter_on_an_older_node_says_so_and_a_plain_one_goes_on() -> None:
    """An older node knows no such request: it is refused at once, on the connection that stays."""

    def older(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        kinds.append(request["kind"])
        record = [b"a/b", b"1", 5, 5, 1, 0, 0]
        if request["kind"] > 16:
            answer(Status.BAD_VERSION)
        elif request["kind"] == 3:
            answer(Status.OK, 5, b"".join(msgpack.packb(each) for each in (1, False, record)))

    kinds: list[int] = []
    async with FakeNode(Steps("done"), older) as node, aio.Client(node.url) as client:
        with pytest.raises(raftmeta.Unsupported):
            await client.range(prefix="a/", delimiter="/")
        found = await client.range(prefix="a/")
        assert [record.key for record in found.records] == [b"a/b"] and kinds[:2] == [17, 3]
        assert client.metrics()["requests_repeated"] == 0


@pytest.mark.asyncio
async def test_a_client_leaves_a_session_that_forgot_what_was_not_answered() -> None:
    """Somebody else spoke in it, who lies: all commands in it would end so, for ever."""
    async with FakeNode(Steps("done", Status.RESULT_EVICTED, "done")) as node, aio.Client(node.url) as client:
        await client.put("k", "1")
        with pytest.raises(raftmeta.OutcomeUnknown):
            await client.put("k", "2")
        await client.put("k", "3")
        (first, _), (second, _), (third, sequence) = sequences(node)
        assert first == second != third and sequence == 1
