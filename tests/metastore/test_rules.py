"""The rules of a metastore that need no store: what arms, in which order it tells, what bounds it, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from raftmeta import metastore
from raftmeta.errors import InvalidArgument
from raftmeta.metastore import (
    ChangeType,
    Code,
    ConnectionState,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    SessionEvent,
    awaited,
)
from tests.metastore.scripted import ScriptedSource, opened
from tests.metastore.told import Children, Node, States


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a coroutine as a test."""

    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 60))

    return run


async def turns() -> None:
    """Let everything run that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)


@on_loop
async def test_only_reads_of_a_registered_path_arm() -> None:
    """Kafka's shouldWatch: the handler of the path and of the kind; register_watch=False arms nothing."""
    source = ScriptedSource(answers_at_once=False)
    async with await opened(source) as store:
        store.register_znode_change_handler(Node("/a"))
        store.register_znode_child_change_handler(Children("/b"))
        requests = [
            ExistsRequest("/a"),
            GetDataRequest("/a"),
            GetChildrenRequest("/a"),
            ExistsRequest("/b"),
            GetChildrenRequest("/b"),
            GetChildrenRequest("/b", register_watch=False),
            metastore.GetAclRequest("/a"),
            metastore.CreateRequest("/a"),
        ]
        task = asyncio.create_task(store.handle_requests(requests))
        await turns()
        assert [each.arm for each in source.now.asked] == [True, True, False, False, True, False, False, False]
        task.cancel()


@on_loop
async def test_no_more_are_under_way_than_may_be() -> None:
    """The bound holds over all callers, and each answer lets the next request in."""
    source = ScriptedSource()
    async with await opened(source, max_in_flight_requests=3) as store:
        calls = [
            asyncio.create_task(store.handle_requests([ExistsRequest(f"/{call}-{number}") for number in range(4)]))
            for call in range(3)
        ]
        for answered in range(12):
            await turns()
            assert len(source.now.asked) == min(3, 12 - answered)
            source.now.answer()
        assert [len(await call) for call in calls] == [4, 4, 4]


@on_loop
async def test_an_answer_waits_for_the_handlers_before_it() -> None:
    """A change that comes first is told first, however slow its handler; a request of the handler does not wait."""
    source = ScriptedSource()
    async with await opened(source) as store:
        go_on, told = asyncio.Event(), []

        class Slow(metastore.ZNodeChangeHandler):
            path = "/a"

            async def handle_creation(self) -> None:
                asked = asyncio.create_task(store.handle_request(ExistsRequest("/inner")))
                await turns()
                source.now.asked.pop().answer(metastore.requests.failed(ExistsRequest("/inner"), Code.OK))
                told.append(("inner", (await asked).result_code))
                await go_on.wait()
                told.append(("handler", Code.OK))

        store.register_znode_change_handler(Slow())
        asked = asyncio.create_task(store.handle_request(ExistsRequest("/outer")))
        await turns()
        source.now.change(ChangeType.CREATED, "/a")
        source.now.answer()
        while not told:
            await turns()
        assert told == [("inner", Code.OK)] and not asked.done()
        go_on.set()
        told.append(("outer", (await asked).result_code))
        assert told == [("inner", Code.OK), ("handler", Code.OK), ("outer", Code.OK)]


@on_loop
async def test_a_slow_answer_is_an_operation_timeout() -> None:
    """M6 OPERATIONTIMEOUT: the request may be executed all the same, and its place is free again."""
    source = ScriptedSource()
    async with await opened(source, request_timeout_s=0.01, max_in_flight_requests=1) as store:
        answers = await store.handle_requests([ExistsRequest("/a"), ExistsRequest("/b")])
        assert [each.result_code for each in answers] == [Code.OPERATIONTIMEOUT] * 2
        with pytest.raises(metastore.RequestLost):
            answers[0].maybe_throw()
        source.now.answer()  # too late, and ignored


@on_loop
async def test_a_session_is_asked_for_until_there_is_one() -> None:
    """M9: all `before`, then attempts, then all `after`; meanwhile requests are refused and nobody hangs."""
    source = ScriptedSource()
    async with await opened(source) as store:
        go_on = asyncio.Event()
        slow, states = States("one", store), States("two", store)
        slow.before_initializing_session = go_on.wait  # type: ignore[method-assign]
        store.register_state_change_handler(slow)
        store.register_state_change_handler(states)
        waiting = asyncio.create_task(store.handle_request(ExistsRequest("/a")))
        await turns()
        source.failures = [OSError("no"), metastore.ConnectTimeout("no"), metastore.AuthFailed("no")]
        source.now.expire()
        assert (await waiting).result_code == Code.SESSIONEXPIRED
        assert (await store.handle_request(ExistsRequest("/a"))).result_code == Code.SESSIONEXPIRED
        with pytest.raises(metastore.SessionExpired):
            await store.wait_until_connected()
        assert states.told == []
        go_on.set()
        await turns()
        assert store.connection_state == ConnectionState.CONNECTING
        assert (await store.handle_request(ExistsRequest("/a"))).result_code == Code.CONNECTIONLOSS
        await store.wait_until_connected()
        await turns()
        assert states.told == [("before", 1), ("auth", 1), ("after", 2)]
        assert source.log == ["open", "close", *["open", "close"] * 3, "open"]
        assert store.session_id == 2


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second between attempts is Kafka's; here it would only be waited for."""
    monkeypatch.setattr(awaited, "RETRY_S", 0.001)


@on_loop
async def test_a_refused_authentication_is_told_and_tried_again() -> None:
    """M8: on_auth_failure; requests are AUTHFAILED until a new session was accepted."""
    source = ScriptedSource()
    async with await opened(source) as store:
        states = States("one", store)
        store.register_state_change_handler(states)
        source.now.tell(SessionEvent.AUTH_FAILED)
        assert (await store.handle_request(ExistsRequest("/a"))).result_code == Code.AUTHFAILED
        with pytest.raises(metastore.AuthFailed):
            await store.wait_until_connected()
        while len(states.told) < 3:
            await turns()
        assert [word for word, _ in states.told] == ["auth", "before", "after"]
        assert store.meters.events["AuthFailures"].count == 1


@on_loop
async def test_what_a_former_session_tells_is_ignored() -> None:
    """A late event of a carrier that expired reaches no handler and changes no state."""
    source = ScriptedSource()
    async with await opened(source) as store:
        node = Node("/a")
        store.register_znode_change_handler(node)
        former = source.now
        former.expire()
        while store.session_id != 2:
            await turns()
        former.change(ChangeType.CREATED, "/a")
        former.tell(SessionEvent.DISCONNECTED)
        await turns()
        assert node.told == [] and store.connection_state == ConnectionState.CONNECTED


@on_loop
async def test_a_handler_may_close_its_metastore() -> None:
    """Neither change handlers nor state handlers wait for themselves; others who close meanwhile come back, too."""
    for is_state in (False, True):
        source = ScriptedSource()
        store = await opened(source)

        async def close(store: metastore.AioMetastore = store) -> None:
            await store.close()

        if is_state:
            states = States("one", store)
            states.before_initializing_session = close  # type: ignore[method-assign]
            store.register_state_change_handler(states)
            source.now.expire()
        else:
            node = Node("/a")
            node.handle_creation = close  # type: ignore[method-assign]
            store.register_znode_change_handler(node)
            source.now.change(ChangeType.CREATED, "/a")
        await turns()
        await store.close()
        assert source.is_closed and source.now.is_closed
        assert store.connection_state == ConnectionState.CLOSED


@on_loop
async def test_a_handler_that_is_gone_when_its_turn_comes_is_not_called() -> None:
    """An event that was waiting behind a slow handler finds nobody after close() or unregister."""
    source = ScriptedSource()
    async with await opened(source) as store:
        go_on = asyncio.Event()

        class Slow(metastore.ZNodeChangeHandler):
            path = "/slow"

            async def handle_creation(self) -> None:
                await go_on.wait()

        late = Node("/late")
        store.register_znode_change_handler(Slow())
        store.register_znode_change_handler(late)
        source.now.change(ChangeType.CREATED, "/slow")
        source.now.change(ChangeType.CREATED, "/late")
        await turns()
        store.unregister_znode_change_handler("/late")
        go_on.set()
        await turns()
        assert late.told == []


@on_loop
async def test_a_caller_that_is_cancelled_leaves_no_place_taken() -> None:
    """Its requests go on, and their answers free the room."""
    source = ScriptedSource()
    async with await opened(source, max_in_flight_requests=1) as store:
        task = asyncio.create_task(store.handle_requests([ExistsRequest("/a"), ExistsRequest("/b")]))
        await turns()
        task.cancel()
        await turns()
        source.now.answer()
        asked = asyncio.create_task(store.handle_request(ExistsRequest("/c")))
        await turns()
        source.now.answer()
        assert (await asked).path == "/c"


def test_wrong_settings_and_handlers_name_the_field() -> None:
    """Before anything is opened."""
    for name in ("session_timeout_s", "connection_timeout_s", "max_in_flight_requests", "request_timeout_s"):
        with pytest.raises(InvalidArgument) as caught:
            metastore.Settings(**{name: 0})
        assert caught.value.field == name
    handlers = metastore.handlers.Handlers()
    for add, wrong in ((handlers.add_change, Node("a")), (handlers.add_child_change, Children("/a/"))):
        with pytest.raises(InvalidArgument):
            add(wrong)  # type: ignore[operator]
    with pytest.raises(InvalidArgument):
        handlers.add_state(metastore.StateChangeHandler())


@on_loop
async def test_something_that_is_no_request_is_an_error() -> None:
    """A mistake of the program is no result code."""
    async with await opened(ScriptedSource()) as store:
        with pytest.raises(InvalidArgument):
            await store.handle_request("/a")  # type: ignore[arg-type]
