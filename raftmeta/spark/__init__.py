"""Pipelines on Spark: `raftmeta pipeline` and the same from a program (docs/pipeline.md).

    from raftmeta.spark import verify

    verified = verify(["build/jepsen/20261120-register"], "checked")
    print(verified.verdict)

Needs the extra `spark` and Java 17. A pipeline looks for both when it starts; importing this module does not.
"""

from __future__ import annotations

from raftmeta.spark.churn import Churned, churn, sizes
from raftmeta.spark.comparison import Compared, compare
from raftmeta.spark.feed import ClientSource, Fed, Lag, Source, feed
from raftmeta.spark.feed_file import FileSource, lake_of
from raftmeta.spark.feed_kafka import FedTopic, feed_topic
from raftmeta.spark.jobs import Progress
from raftmeta.spark.lake import Lake, MissingRevisions
from raftmeta.spark.layout import Layout, layout_of
from raftmeta.spark.reading import read
from raftmeta.spark.runs import Run, find_runs
from raftmeta.spark.session import register, spark_session
from raftmeta.spark.sink import Sink, WrittenBatch
from raftmeta.spark.stream_lag import StreamLags, lag_metrics, stream_lag
from raftmeta.spark.sweep import Swept, sweep
from raftmeta.spark.topics import KafkaTopics, TopicFailed
from raftmeta.spark.travel import changes, merge, retain, state
from raftmeta.spark.verify import Verified, verify

__all__ = [
    "Churned",
    "ClientSource",
    "Compared",
    "Fed",
    "FedTopic",
    "FileSource",
    "KafkaTopics",
    "Lag",
    "Lake",
    "Layout",
    "MissingRevisions",
    "Progress",
    "Run",
    "Sink",
    "Source",
    "StreamLags",
    "Swept",
    "TopicFailed",
    "Verified",
    "WrittenBatch",
    "changes",
    "churn",
    "compare",
    "feed",
    "feed_topic",
    "find_runs",
    "lag_metrics",
    "lake_of",
    "layout_of",
    "merge",
    "read",
    "register",
    "retain",
    "sizes",
    "spark_session",
    "state",
    "stream_lag",
    "sweep",
    "verify",
]
