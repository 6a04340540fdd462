"""Real, unmodified clients of ZooKeeper, each on servers of either kind: one module a client, with `run(trial)`.

trial       what an acceptance is given: servers, a folder, and checks that are counted
kazoo       kazoo's own test suite
curator     Curator's recipes
zkcli       a session of ZooKeeper's command line, compared with a transcript
spark       two masters of a stand-alone Spark, of which one is killed
clickhouse  two replicas of a ClickHouse table, of which one is killed
migrate     no client: a running ensemble is moved to the doors and back
kafka       three Kafka brokers through all that can happen to them; kafka_sasl, kafka_kills: with rights, with faults
"""
