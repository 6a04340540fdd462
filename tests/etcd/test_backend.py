"""etcd:// on an etcd door: the tests that are etcd's own (tests/conformance/test_etcd), with a node in its place.

./build.sh doors etcd-door has the whole conformance suite on three nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance import test_etcd as own
from tests.conformance.etcd_doors import EtcdDoors
from tests.conformance.test_etcd import backend, prefix  # noqa: F401  fixtures


class OneDoor(EtcdDoors):
    members = (1,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneDoor]:
    with OneDoor(tmp_path_factory.mktemp("door") / "servers") as server:
        yield server


test_keys_and_values_are_as_etcdctl_shows_them = own.test_keys_and_values_are_as_etcdctl_shows_them
test_a_place_goes_with_its_lease_and_its_fence_with_it = own.test_a_place_goes_with_its_lease_and_its_fence_with_it
test_a_fence_travels_and_is_checked_with_the_write = own.test_a_fence_travels_and_is_checked_with_the_write
test_operations_on_one_key_count_one_after_the_other = own.test_operations_on_one_key_count_one_after_the_other
test_a_history_that_is_gone_is_one_coalesced_call = own.test_a_history_that_is_gone_is_one_coalesced_call
test_a_watch_goes_on_where_its_stream_broke = own.test_a_watch_goes_on_where_its_stream_broke
test_a_later_life_of_an_owner_takes_its_place = own.test_a_later_life_of_an_owner_takes_its_place
