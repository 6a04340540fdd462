"""Where the cluster is, and clients of it for whoever looks at the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftmeta.aio import Client
from raftmeta.security.settings import Tls

__all__ = ["Place", "Proof"]

CLIENT_NAME = "dashboard"


@dataclass(frozen=True, slots=True)
class Proof:
    """A user with its password, or a token, or nothing."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def is_nothing(self) -> bool:
        return self.user is None and self.token is None


@dataclass(frozen=True, slots=True)
class Place:
    """url, cluster, tls: as raftmeta.Client takes them."""

    url: str
    cluster: str
    tls: Tls | None = None

    def client(self, proof: Proof, url: str | None = None) -> Client:
        """A client of the whole cluster, or of the one node of a URL."""
        return Client(
            self.url if url is None else url,
            cluster=self.cluster,
            name=CLIENT_NAME,
            tls=self.tls,
            user=proof.user,
            password=proof.password,
            token=proof.token,
        )

    def nodes(self) -> list[str]:
        """One URL for each address in the URL."""
        scheme, _, rest = self.url.partition("://")
        if scheme == "raft+unix":
            return [self.url]
        addresses, mark, query = rest.partition("?")
        return [f"{scheme}://{address}{mark}{query}" for address in dict.fromkeys(addresses.split(",")) if address]
