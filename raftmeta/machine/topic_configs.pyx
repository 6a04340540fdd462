"""Changes of a topic's configs: bodies.

Source: Apache Kafka 3.9 ConfigurationControlManager.java (incrementalAlterConfigs, legacyAlterConfigs): a word that is
appended stands in the list once, and one that is taken away and stands there twice stands there once more.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memset

from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.topics cimport (TOPIC_CONFIG_APPEND, TOPIC_CONFIG_DELETE, TOPIC_CONFIG_SET, TOPIC_CONFIGS_MAX,
                                   TOPIC_INVALID_CONFIG, TOPIC_OK, TopicChange, topics_encode_configs,
                                   topics_next_change, topics_next_config)

cdef enum:
    COMMA = 44
    WORDS_MAX = 64              # of a list that is changed: each is looked for in the other list


cdef inline bint _same(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and memcmp(left.data, right.data, left.length) == 0

cdef inline int _order(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order if order != 0 else (left.length > right.length) - (left.length < right.length)


# --- lists of words ---------------------------------------------------------------------------------------------------
# The next word that is not empty; begin with *place = 0. False: there is no more.
cdef bint _next_word(const Bytes* list, uint32_t* place, Bytes* word) noexcept nogil:
    cdef uint32_t end
    while place[0] < list.length:
        end = place[0]
        while end < list.length and list.data[end] != COMMA:
            end += 1
        word.data = list.data + place[0]
        word.length = end - place[0]
        place[0] = end + 1
        if word.length:
            return True
    return False

cdef bint _is_short(const Bytes* list) noexcept nogil:
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef Bytes one
    while count <= WORDS_MAX and _next_word(list, &place, &one):
        count += 1
    return count <= WORDS_MAX

# How often the list has the word.
cdef uint32_t _count(const Bytes* list, const Bytes* word) noexcept nogil:
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef Bytes one
    while _next_word(list, &place, &one):
        count += _same(&one, word)
    return count

# texts has room for it.
cdef void _append_word(Vec[uint8_t]* texts, size_t start, const Bytes* word) noexcept nogil:
    if texts.size > start:
        texts.push(COMMA)
    texts.append(word.data, word.length)

# The words of `list`, and those of `more` that are not in it.
cdef void _add_words(Vec[uint8_t]* texts, const Bytes* list, const Bytes* more) noexcept nogil:
    cdef size_t start = texts.size
    cdef Bytes written, word
    cdef uint32_t place = 0
    while _next_word(list, &place, &word):
        _append_word(texts, start, &word)
    place = 0
    while _next_word(more, &place, &word):
        written.data = texts.data + start
        written.length = <uint32_t>(texts.size - start)
        if _count(&written, &word) == 0:
            _append_word(texts, start, &word)

# Each word of `gone` takes the first one of its kind away.
cdef void _take_words(Vec[uint8_t]* texts, const Bytes* list, const Bytes* gone) noexcept nogil:
    cdef size_t start = texts.size
    cdef Bytes before, word
    cdef uint32_t place = 0
    before.data = list.data
    while _next_word(list, &place, &word):
        before.length = <uint32_t>(word.data - list.data)
        if _count(&before, &word) >= _count(gone, &word):
            _append_word(texts, start, &word)


# --- one config -------------------------------------------------------------------------------------------------------
# Push the config that the change leaves, if it leaves one. old: its value; NULL: the topic has none of its own.
cdef bint _change(const TopicChange* change, const Bytes* old, Vec[Bytes]* pairs, Vec[uint8_t]* texts,
                  int* code) noexcept nogil:
    cdef const Bytes* list = old if old != NULL else &change.fallback
    cdef size_t start = texts.size
    cdef Bytes value
    if change.kind == TOPIC_CONFIG_DELETE:
        return True
    value = change.value
    if change.kind != TOPIC_CONFIG_SET:
        if not _is_short(list) or not _is_short(&change.value):
            code[0] = TOPIC_INVALID_CONFIG
            return True
        if change.kind == TOPIC_CONFIG_APPEND:
            _add_words(texts, list, &change.value)
        else:
            _take_words(texts, list, &change.value)
        value.data = texts.data + start
        value.length = <uint32_t>(texts.size - start)
    return pairs.push(change.name) and pairs.push(value)

# Both lists ascend.
cdef bint _merge(const Bytes* configs, const Bytes* changes, bint is_whole, Vec[Bytes]* pairs, Vec[uint8_t]* texts,
                 int* code) noexcept nogil:
    cdef uint32_t config_place = 0
    cdef uint32_t change_place = 0
    cdef TopicChange change
    cdef Bytes name, value
    cdef bint is_good = True
    cdef bint has_config = topics_next_config(configs, &config_place, &name, &value)
    cdef bint has_change = topics_next_change(changes, &change_place, &change)
    cdef int order
    while is_good and (has_config or has_change):
        order = -1 if not has_change else 1 if not has_config else _order(&name, &change.name)
        if order < 0 and not is_whole:
            is_good = pairs.push(name) and pairs.push(value)
        elif order >= 0:
            is_good = _change(&change, &value if order == 0 else NULL, pairs, texts, code)
        if order <= 0:
            has_config = topics_next_config(configs, &config_place, &name, &value)
        if order >= 0:
            has_change = topics_next_change(changes, &change_place, &change)
    return is_good

cdef status_t topic_configs_change(const Bytes* configs, const Bytes* changes, bint is_whole, Vec[uint8_t]* out,
                                   int* code) noexcept nogil:
    cdef Vec[Bytes] pairs
    cdef Vec[uint8_t] texts
    cdef status_t status = OK
    memset(<void*>&pairs, 0, sizeof(pairs))
    memset(<void*>&texts, 0, sizeof(texts))
    code[0] = TOPIC_OK
    # A list is not longer than the one before and the words that come: it stays where it is.
    if (not texts.reserve(<size_t>configs.length + changes.length)
            or not _merge(configs, changes, is_whole, &pairs, &texts, code)):
        status = NO_MEMORY
    elif pairs.size > 2 * TOPIC_CONFIGS_MAX:
        code[0] = TOPIC_INVALID_CONFIG
    elif code[0] == TOPIC_OK:
        status = topics_encode_configs(pairs.data, <uint32_t>(pairs.size // 2), out)
        if status != OK and status != NO_MEMORY:
            code[0] = TOPIC_INVALID_CONFIG      # a value that is too long
            status = OK
    pairs.release()
    texts.release()
    return status
