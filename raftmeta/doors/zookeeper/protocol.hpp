// The requests of ZooKeeper's client protocol as data: one row for each that a client sends. The codec decodes by these
// rows; docs/zookeeper-requests.md and the tests are checked against them.
//
// As C++ because a table of constants needs no start there, and nobody can write to it.
// Source: apache/zookeeper 3.9.5: zookeeper.jute, ZooDefs.java, FinalRequestProcessor.java.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace raftmeta {

// A field of a request, with its type in jute.
enum ZkField : uint8_t {
    ZK_FIELD_END,
    ZK_FIELD_PATH,                  // ustring
    ZK_FIELD_DATA,                  // buffer
    ZK_FIELD_ACL,                   // vector<ACL>
    ZK_FIELD_FLAGS,                 // int: CreateMode
    ZK_FIELD_TTL,                   // long, ms
    ZK_FIELD_VERSION,               // int
    ZK_FIELD_WATCH,                 // boolean
    ZK_FIELD_MODE,                  // int
    ZK_FIELD_ZXID,                  // long
    ZK_FIELD_DATA_WATCHES,          // vector<ustring>; these five in the order of ZkRequest.watches
    ZK_FIELD_EXIST_WATCHES,
    ZK_FIELD_CHILD_WATCHES,
    ZK_FIELD_PERSISTENT_WATCHES,
    ZK_FIELD_RECURSIVE_WATCHES,
    ZK_FIELD_SCHEME,                // ustring
    ZK_FIELD_TEXT,                  // ustring: servers, of reconfig
    ZK_FIELD_OPERATIONS,            // MultiHeader and request, again and again
};

// The body of the answer.
enum ZkAnswer : uint8_t {
    ZK_ANSWER_NOTHING,
    ZK_ANSWER_PATH,
    ZK_ANSWER_PATH_STAT,
    ZK_ANSWER_STAT,
    ZK_ANSWER_DATA_STAT,
    ZK_ANSWER_ACL_STAT,
    ZK_ANSWER_CHILDREN,
    ZK_ANSWER_CHILDREN_STAT,
    ZK_ANSWER_NUMBER,               // int
    ZK_ANSWER_ERROR,                // int, 0 (ErrorResponse)
    ZK_ANSWER_TOKEN,                // buffer
    ZK_ANSWER_CLIENTS,              // vector<ClientInfo>
    ZK_ANSWER_RESULTS,              // MultiResponse
};

enum ZkTrait : uint8_t {
    ZK_IS_WRITE = 1,                // a command of the machine
    ZK_IS_READ = 2,                 // out of the tree
    ZK_IS_WATCH = 4,                // of the table of watches
    ZK_IS_SPEAKER = 8,              // who speaks on the connection
    ZK_IS_SESSION = 16,             // ping, sync, close
    ZK_IN_MULTI = 32,
    ZK_IN_MULTI_READ = 64,
};

constexpr int ZK_FIELDS_MAX = 7;

struct ZkRow {
    int32_t opcode;
    const char* name;               // as ZooDefs.OpCode has it
    uint8_t fields[ZK_FIELDS_MAX];  // ZkField, in the order of the wire
    uint8_t answer;                 // ZkAnswer
    uint8_t traits;                 // ZkTrait
    const char* since;              // version of ZooKeeper
};

// Short names for the page below.
namespace zk_words {
constexpr uint8_t PATH = ZK_FIELD_PATH, DATA = ZK_FIELD_DATA, ACL = ZK_FIELD_ACL, FLAGS = ZK_FIELD_FLAGS;
constexpr uint8_t TTL = ZK_FIELD_TTL, VERSION = ZK_FIELD_VERSION, WATCH = ZK_FIELD_WATCH, MODE = ZK_FIELD_MODE;
constexpr uint8_t ZXID = ZK_FIELD_ZXID, SCHEME = ZK_FIELD_SCHEME, TEXT = ZK_FIELD_TEXT;
constexpr uint8_t OPERATIONS = ZK_FIELD_OPERATIONS, W_DATA = ZK_FIELD_DATA_WATCHES, W_EXIST = ZK_FIELD_EXIST_WATCHES;
constexpr uint8_t W_CHILD = ZK_FIELD_CHILD_WATCHES, W_PERSISTENT = ZK_FIELD_PERSISTENT_WATCHES;
constexpr uint8_t W_RECURSIVE = ZK_FIELD_RECURSIVE_WATCHES;
constexpr uint8_t OPERATION = ZK_IS_WRITE | ZK_IN_MULTI, QUESTION = ZK_IS_READ | ZK_IN_MULTI_READ;

static const ZkRow ROWS[] = {
    {  1, "create", {PATH, DATA, ACL, FLAGS}, ZK_ANSWER_PATH, OPERATION, "3.0"},
    {  2, "delete", {PATH, VERSION}, ZK_ANSWER_NOTHING, OPERATION, "3.0"},
    {  3, "exists", {PATH, WATCH}, ZK_ANSWER_STAT, ZK_IS_READ, "3.0"},
    {  4, "getData", {PATH, WATCH}, ZK_ANSWER_DATA_STAT, QUESTION, "3.0"},
    {  5, "setData", {PATH, DATA, VERSION}, ZK_ANSWER_STAT, OPERATION, "3.0"},
    {  6, "getACL", {PATH}, ZK_ANSWER_ACL_STAT, ZK_IS_READ, "3.0"},
    {  7, "setACL", {PATH, ACL, VERSION}, ZK_ANSWER_STAT, ZK_IS_WRITE, "3.0"},
    {  8, "getChildren", {PATH, WATCH}, ZK_ANSWER_CHILDREN, QUESTION, "3.0"},
    {  9, "sync", {PATH}, ZK_ANSWER_PATH, ZK_IS_SESSION, "3.0"},
    { 11, "ping", {}, ZK_ANSWER_NOTHING, ZK_IS_SESSION, "3.0"},
    { 12, "getChildren2", {PATH, WATCH}, ZK_ANSWER_CHILDREN_STAT, ZK_IS_READ, "3.3"},
    { 13, "check", {PATH, VERSION}, ZK_ANSWER_NOTHING, ZK_IN_MULTI, "3.4"},
    { 14, "multi", {OPERATIONS}, ZK_ANSWER_RESULTS, ZK_IS_WRITE, "3.4"},
    { 15, "create2", {PATH, DATA, ACL, FLAGS}, ZK_ANSWER_PATH_STAT, OPERATION, "3.5"},
    { 16, "reconfig", {TEXT, TEXT, TEXT, ZXID}, ZK_ANSWER_DATA_STAT, ZK_IS_WRITE, "3.5"},
    { 17, "checkWatches", {PATH, MODE}, ZK_ANSWER_NOTHING, ZK_IS_WATCH, "3.5"},
    { 18, "removeWatches", {PATH, MODE}, ZK_ANSWER_NOTHING, ZK_IS_WATCH, "3.5"},
    { 19, "createContainer", {PATH, DATA, ACL, FLAGS}, ZK_ANSWER_PATH_STAT, OPERATION, "3.5.1"},
    { 21, "createTTL", {PATH, DATA, ACL, FLAGS, TTL}, ZK_ANSWER_PATH_STAT, OPERATION, "3.5.3"},
    { 22, "multiRead", {OPERATIONS}, ZK_ANSWER_RESULTS, ZK_IS_READ, "3.6"},
    {100, "auth", {MODE, SCHEME, DATA}, ZK_ANSWER_NOTHING, ZK_IS_SPEAKER, "3.0"},
    {101, "setWatches", {ZXID, W_DATA, W_EXIST, W_CHILD}, ZK_ANSWER_NOTHING, ZK_IS_WATCH, "3.2"},
    {102, "sasl", {DATA}, ZK_ANSWER_TOKEN, ZK_IS_SPEAKER, "3.4"},
    {103, "getEphemerals", {PATH}, ZK_ANSWER_CHILDREN, ZK_IS_READ, "3.6"},
    {104, "getAllChildrenNumber", {PATH}, ZK_ANSWER_NUMBER, ZK_IS_READ, "3.6"},
    {105, "setWatches2", {ZXID, W_DATA, W_EXIST, W_CHILD, W_PERSISTENT, W_RECURSIVE},
            ZK_ANSWER_NOTHING, ZK_IS_WATCH, "3.6"},
    {106, "addWatch", {PATH, MODE}, ZK_ANSWER_ERROR, ZK_IS_WATCH, "3.6"},
    {107, "whoAmI", {}, ZK_ANSWER_CLIENTS, ZK_IS_SPEAKER, "3.7"},
    {-11, "closeSession", {}, ZK_ANSWER_NOTHING, ZK_IS_SESSION, "3.0"},
};

}  // namespace zk_words

static const size_t ZK_ROWS_COUNT = sizeof(zk_words::ROWS) / sizeof(zk_words::ROWS[0]);

inline const ZkRow* zk_row_at(size_t position) noexcept {
    return position < ZK_ROWS_COUNT ? &zk_words::ROWS[position] : nullptr;
}

inline const ZkRow* zk_row(int32_t opcode) noexcept {
    for (size_t i = 0; i < ZK_ROWS_COUNT; ++i)
        if (zk_words::ROWS[i].opcode == opcode) return &zk_words::ROWS[i];
    return nullptr;
}

}  // namespace raftmeta
