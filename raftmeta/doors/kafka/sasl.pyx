"""How a Kafka client proves to be a user: bodies.

    client's first    n,,n=<name>,r=<nonce>
    this node         r=<both nonces>,s=<salt>,i=<iterations>
    client's last     c=biws,r=<both nonces>,p=<proof>
    this node         v=<signature>

AuthMessage is the client's first without "n,,", this node's answer, and the client's last without its proof, with
commas between. proof = ClientKey ^ HMAC(StoredKey, AuthMessage); signature = HMAC(ServerKey, AuthMessage).

Sources: RFC 5802; RFC 7677; Apache Kafka 3.9 ScramSaslServer.java and SaslServerAuthenticator.java.
"""

from libc.stdint cimport int16_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memset

from raftmeta.connections.accounts cimport accounts_attach
from raftmeta.connections.connections cimport connection_next_turn, connection_prove
from raftmeta.doors.desk.passwords cimport PASSWORD_ITERATIONS, Salting, guesses_allow, is_private, salting_go
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport random_bytes
from raftmeta.doors.kafka.access cimport access_must_prove, access_table
from raftmeta.doors.kafka.audit cimport audit_proved
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_bytes, get_end, get_int16, get_tags, get_text,
                                         put_array, put_bytes, put_int16, put_int64, put_null_text, put_tags, put_word)
from raftmeta.doors.kafka.protocol cimport (KAFKA_API_VERSIONS, KAFKA_ILLEGAL_SASL_STATE, KAFKA_OK,
                                            KAFKA_SASL_AUTHENTICATE, KAFKA_SASL_AUTHENTICATION_FAILED,
                                            KAFKA_SASL_HANDSHAKE, KAFKA_UNSUPPORTED_SASL_MECHANISM)
from raftmeta.doors.kafka.reply cimport reply_begin, reply_end, reply_fail, request_pin, request_reader
from raftmeta.doors.kafka.state cimport (KAFKA_FAILURE_SLOTS, NONCE_BYTES, SASL_NONE, SASL_PLAIN, SASL_PROVED,
                                         SASL_SCRAM, SASL_SCRAM_ASKED, KafkaFailures)
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_state cimport SEED_BYTES, RightsTable, TableUser
from raftmeta.machine.rights_table cimport table_user
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.old_digests cimport base64
from raftmeta.native.sha256 cimport are_equal_in_constant_time, hmac_sha256, sha256
from raftmeta.net.stream cimport stream_is_secured
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes

cdef enum:
    KEY_BYTES = 32
    SALT_BYTES = 16
    BASE64_BYTES = 44               # of a key
    DIGITS_MAX = 10
    CLIENT_NONCE_BYTES_MAX = 255


cdef bint sasl_prepare(KafkaDoor* door) noexcept nogil:
    return random_bytes(door.disguise, sizeof(door.disguise))


cdef void sasl_release(KafkaConnection* connection) noexcept nogil:
    connection.sasl.nonce.release()
    connection.sasl.said.release()
    memset(<void*>&connection.sasl, 0, sizeof(connection.sasl))


cdef bint sasl_allows(KafkaDoor* door, const KafkaConnection* connection, const uint8_t* frame,
                      uint32_t length) noexcept nogil:
    cdef KafkaReader reader
    cdef int16_t key
    if connection.base.unbound == 0:
        return True
    memset(&reader, 0, sizeof(reader))
    reader.at = frame
    reader.end = frame + length
    key = get_int16(&reader)
    return not reader.is_bad and key in (KAFKA_API_VERSIONS, KAFKA_SASL_HANDSHAKE, KAFKA_SASL_AUTHENTICATE)


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _answer(KafkaDoor* door, KafkaRequest* request, int16_t code, const char* why,
                  const Bytes* token) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    put_int16(&writer, code)
    if why == NULL:
        put_null_text(&writer)
    else:
        put_word(&writer, why)
    put_bytes(&writer, token)
    if request.version >= 1:
        put_int64(&writer, 0)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


# The connection ends behind this answer. Nobody is told whether it was the name or the password.
cdef void _refuse(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef KafkaConnection* connection = request.connection
    door.counters.unauthenticated += 1
    audit_proved(door, connection, False)
    connection.sasl.step = SASL_NONE
    connection.base.has_ended = True
    _answer(door, request, KAFKA_SASL_AUTHENTICATION_FAILED, b"Authentication failed: wrong user or password",
            &nothing)


# --- SaslHandshake ----------------------------------------------------------------------------------------------------
cdef inline bint _is(const Bytes* text, const char* word, uint32_t length) noexcept nogil:
    return text.length == length and memcmp(text.data, word, length) == 0


cdef void handshake_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaConnection* connection = request.connection
    cdef bint is_secured = stream_is_secured(&connection.base.stream)
    cdef Bytes mechanism = get_text(&reader)
    cdef KafkaWriter writer
    cdef int16_t code = KAFKA_OK
    get_tags(&reader)
    if not get_end(&reader):
        reply_fail(door, request)
        return
    sasl_release(connection)
    if _is(&mechanism, b"SCRAM-SHA-256", 13) and is_private(&connection.base):
        connection.sasl.step = SASL_SCRAM
    elif _is(&mechanism, b"PLAIN", 5) and is_secured:
        connection.sasl.step = SASL_PLAIN
    else:
        code = KAFKA_UNSUPPORTED_SASL_MECHANISM
    writer = reply_begin(door, request)
    put_int16(&writer, code)
    put_array(&writer, 2 if is_secured else 1)
    put_word(&writer, b"SCRAM-SHA-256")
    if is_secured:
        put_word(&writer, b"PLAIN")
    reply_end(door, request, &writer, code)


# --- who is asked for -------------------------------------------------------------------------------------------------
# All nodes make up the same, so that two of them do not give away which names are users.
cdef void _make_up(KafkaDoor* door, const RightsTable* table, KafkaConnection* connection) noexcept nogil:
    cdef uint8_t[KEY_BYTES] made_up
    cdef const uint8_t* seed = &door.disguise[0]
    if table != NULL and table.has_seed:
        seed = &table.seed[0]
    hmac_sha256(seed, SEED_BYTES, connection.sasl.name, connection.sasl.name_length, made_up)
    memcpy(connection.sasl.salt, made_up, SALT_BYTES)
    connection.sasl.iterations = PASSWORD_ITERATIONS
    memset(connection.sasl.stored_key, 0, KEY_BYTES)
    memset(connection.sasl.server_key, 0, KEY_BYTES)


cdef void _find_secret(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef RightsTable* table = access_table(door)
    cdef const TableUser* user = NULL
    if table != NULL:
        user = table_user(table, connection.sasl.name, connection.sasl.name_length)
    connection.sasl.is_user = user != NULL and user.secret.iterations != 0 and user.secret.flags == 0
    if connection.sasl.is_user:
        memcpy(connection.sasl.salt, user.secret.salt, SALT_BYTES)
        connection.sasl.iterations = user.secret.iterations
        memcpy(connection.sasl.stored_key, user.secret.stored_key, KEY_BYTES)
        memcpy(connection.sasl.server_key, user.secret.server_key, KEY_BYTES)
        connection.sasl.rights_since = table.revision
    else:
        _make_up(door, table, connection)
    if table != NULL:
        rights_drop(table)


cdef KafkaFailures* _slot_of(KafkaDoor* door, const KafkaConnection* connection) noexcept nogil:
    return &door.failures[hash64(0, connection.sasl.name, connection.sasl.name_length) % KAFKA_FAILURE_SLOTS]


# The proof is right. False: the user has as many connections as it may.
cdef bint _become(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    connection.name_length = connection.sasl.name_length
    memcpy(connection.name, connection.sasl.name, connection.sasl.name_length)
    connection.is_certified = False
    connection.rights_since = connection.sasl.rights_since
    if accounts_attach(&door.desk.base, &connection.base, connection.name, connection.name_length) != OK:
        return False
    connection.sasl.step = SASL_PROVED
    door.counters.authenticated += 1
    audit_proved(door, connection, True)
    if not access_must_prove(door, connection):
        connection_prove(&door.desk.base, &connection.base)
    return True


# is_proof: ClientKey is right.
cdef bint _judge(KafkaDoor* door, KafkaRequest* request, const uint8_t* client_key) noexcept nogil:
    cdef KafkaConnection* connection = request.connection
    cdef KafkaFailures* slot = _slot_of(door, connection)
    cdef uint8_t[KEY_BYTES] stored
    cdef bint is_proof
    sha256(client_key, KEY_BYTES, stored)
    is_proof = (are_equal_in_constant_time(stored, connection.sasl.stored_key, KEY_BYTES) and connection.sasl.is_user)
    if not guesses_allow(&slot.count, &slot.since_ns, door.desk.base.now_ns):
        return False
    if not is_proof:
        slot.count += 1
        return False
    return _become(door, connection)


# --- SCRAM ------------------------------------------------------------------------------------------------------------
# The attribute `name`= at the beginning of the text, up to a comma. False: another one stands there.
cdef bint _attribute(Bytes* text, uint8_t name, Bytes* value) noexcept nogil:
    cdef const uint8_t* comma
    if text.length < 2 or text.data[0] != name or text.data[1] != c"=":
        return False
    value[0] = bytes_of(text.data + 2, text.length - 2)
    comma = <const uint8_t*>memchr(value.data, c",", value.length)
    if comma != NULL:
        value.length = <uint32_t>(comma - value.data)
        text[0] = bytes_of(comma + 1, text.length - value.length - 3)
    else:
        text[0] = bytes_of(text.data + text.length, 0)
    return True


# =2C and =3D stand for a comma and an equals sign.
cdef bint _take_name(KafkaConnection* connection, const Bytes* text) noexcept nogil:
    cdef uint32_t length = 0
    cdef uint32_t i = 0
    cdef uint8_t byte
    while i < text.length:
        byte = text.data[i]
        if byte == c"=":
            if i + 2 >= text.length:
                return False
            if memcmp(text.data + i, <const char*>b"=2C", 3) == 0:
                byte = c","
            elif memcmp(text.data + i, <const char*>b"=3D", 3) == 0:
                byte = c"="
            else:
                return False
            i += 2
        if length == PRINCIPAL_BYTES_MAX:
            return False
        connection.sasl.name[length] = byte
        length += 1
        i += 1
    connection.sasl.name_length = <uint8_t>length
    return length != 0 and connection.sasl.name[0] != 0


# The client's first. False: it means nothing, or asks for what we do not have (channel binding, another identity).
cdef bint _take_first(KafkaConnection* connection, const Bytes* token) noexcept nogil:
    cdef Bytes text
    cdef Bytes name, nonce
    cdef uint8_t[NONCE_BYTES] random
    cdef uint8_t[2 * NONCE_BYTES] own
    if token.length < 3 or memcmp(token.data, <const char*>b"n,,", 3) != 0:
        return False
    text = bytes_of(token.data + 3, token.length - 3)
    connection.sasl.said.clear()
    connection.sasl.nonce.clear()
    if not connection.sasl.said.append(text.data, text.length):
        return False
    if not _attribute(&text, c"n", &name) or not _attribute(&text, c"r", &nonce):
        return False
    return (0 < nonce.length <= CLIENT_NONCE_BYTES_MAX and _take_name(connection, &name)
            and random_bytes(random, NONCE_BYTES)
            and connection.sasl.nonce.append(nonce.data, nonce.length)
            and connection.sasl.nonce.append(own, base64(random, NONCE_BYTES, own)))


cdef bint _say_salt(KafkaConnection* connection, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[2 * SALT_BYTES] salt
    cdef uint8_t[DIGITS_MAX] digits
    cdef uint32_t value = connection.sasl.iterations
    cdef int at = DIGITS_MAX
    while at == DIGITS_MAX or value:
        at -= 1
        digits[at] = <uint8_t>(c"0" + value % 10)
        value //= 10
    out.clear()
    return (out.append(<const uint8_t*>b"r=", 2) and out.append(connection.sasl.nonce.data, connection.sasl.nonce.size)
            and out.append(<const uint8_t*>b",s=", 3)
            and out.append(salt, base64(connection.sasl.salt, SALT_BYTES, salt))
            and out.append(<const uint8_t*>b",i=", 3) and out.append(digits + at, DIGITS_MAX - at)
            and connection.sasl.said.push(c",") and connection.sasl.said.append(out.data, out.size))


cdef int _digit(uint8_t byte) noexcept nogil:
    if c"A" <= byte <= c"Z":
        return byte - c"A"
    if c"a" <= byte <= c"z":
        return byte - c"a" + 26
    if c"0" <= byte <= c"9":
        return byte - c"0" + 52
    return 62 if byte == c"+" else 63 if byte == c"/" else -1


# 32 bytes of base64.
cdef bint _read_key(const Bytes* text, uint8_t* key) noexcept nogil:
    cdef uint32_t bits = 0
    cdef int count = 0
    cdef int written = 0
    cdef int digit
    cdef uint32_t i
    if text.length != BASE64_BYTES or text.data[BASE64_BYTES - 1] != c"=":
        return False
    for i in range(BASE64_BYTES - 1):
        digit = _digit(text.data[i])
        if digit < 0:
            return False
        bits = bits << 6 | <uint32_t>digit
        count += 6
        if count >= 8:
            count -= 8
            key[written] = <uint8_t>(bits >> count)
            written += 1
    return written == KEY_BYTES


# The client's last: c, r, p. AuthMessage ends before the proof.
cdef bint _take_last(KafkaConnection* connection, const Bytes* token, uint8_t* proof) noexcept nogil:
    cdef Bytes text = token[0]
    cdef Bytes binding, nonce, said
    if not _attribute(&text, c"c", &binding) or not _attribute(&text, c"r", &nonce):
        return False
    said = bytes_of(token.data, token.length - text.length - 1)
    return (_is(&binding, b"biws", 4) and nonce.length == connection.sasl.nonce.size
            and memcmp(nonce.data, connection.sasl.nonce.data, nonce.length) == 0
            and connection.sasl.said.push(c",") and connection.sasl.said.append(said.data, said.length)
            and _attribute(&text, c"p", &nonce) and _read_key(&nonce, proof))


cdef void _prove_scram(KafkaDoor* door, KafkaRequest* request, const Bytes* token) noexcept nogil:
    cdef KafkaConnection* connection = request.connection
    cdef uint8_t[KEY_BYTES] proof
    cdef uint8_t[KEY_BYTES] mask
    cdef uint8_t[2 + BASE64_BYTES] text
    cdef Bytes answer
    cdef int i
    if not _take_last(connection, token, proof):
        _refuse(door, request)
        return
    hmac_sha256(connection.sasl.stored_key, KEY_BYTES, connection.sasl.said.data, connection.sasl.said.size, mask)
    for i in range(KEY_BYTES):
        proof[i] ^= mask[i]
    if not _judge(door, request, proof):
        _refuse(door, request)
        return
    hmac_sha256(connection.sasl.server_key, KEY_BYTES, connection.sasl.said.data, connection.sasl.said.size, mask)
    memcpy(text, <const char*>b"v=", 2)
    answer = bytes_of(text, 2 + base64(mask, KEY_BYTES, text + 2))
    _answer(door, request, KAFKA_OK, NULL, &answer)


# --- PLAIN ------------------------------------------------------------------------------------------------------------
# [authzid] NUL name NUL password
cdef bint _take_plain(KafkaConnection* connection, const Bytes* token, Bytes* password) noexcept nogil:
    cdef const uint8_t* end = token.data + token.length
    cdef const uint8_t* first
    cdef const uint8_t* second
    if token.length == 0:
        return False
    first = <const uint8_t*>memchr(token.data, 0, token.length)
    if first == NULL:
        return False
    second = <const uint8_t*>memchr(first + 1, 0, end - first - 1)
    if second == NULL or not 0 < second - first - 1 <= PRINCIPAL_BYTES_MAX:
        return False
    if first != token.data and (first - token.data != second - first - 1
                                or memcmp(token.data, first + 1, first - token.data) != 0):
        return False                # it wants to be somebody else
    connection.sasl.name_length = <uint8_t>(second - first - 1)
    memcpy(connection.sasl.name, first + 1, connection.sasl.name_length)
    password[0] = bytes_of(second + 1, end - second - 1)
    return True


cdef void _prove_plain(KafkaDoor* door, KafkaRequest* request, const Bytes* token) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef KafkaConnection* connection = request.connection
    cdef uint8_t[KEY_BYTES] key
    cdef Bytes password
    cdef Salting* salting
    if not _take_plain(connection, token, &password):
        _refuse(door, request)
        return
    if request.texts.size == 0:
        _find_secret(door, connection)
        if not request.texts.resize(sizeof(Salting)):
            reply_fail(door, request)
            return
        memset(request.texts.data, 0, sizeof(Salting))
        salting = <Salting*>request.texts.data
        salting.iterations = connection.sasl.iterations
        memcpy(salting.salt, connection.sasl.salt, SALT_BYTES)
    salting = <Salting*>request.texts.data
    if not salting_go(salting, &password):
        connection_next_turn(&door.desk.base, &connection.base)
        return
    hmac_sha256(salting.sum, KEY_BYTES, b"Client Key", 10, key)
    memset(request.texts.data, 0, sizeof(Salting))
    if _judge(door, request, key):
        _answer(door, request, KAFKA_OK, NULL, &nothing)
    else:
        _refuse(door, request)


# --- SaslAuthenticate -------------------------------------------------------------------------------------------------
cdef bint _read(const KafkaRequest* request, Bytes* token) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    token[0] = get_bytes(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void authenticate_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes token
    cdef KafkaConnection* connection = request.connection
    if not _read(request, &token):
        reply_fail(door, request)
    elif connection.sasl.step == SASL_SCRAM:
        if _take_first(connection, &token):
            request.round = round_ask(&door.desk)
        else:
            _refuse(door, request)
    elif connection.sasl.step == SASL_PLAIN:
        request.round = round_ask(&door.desk)
    elif connection.sasl.step == SASL_SCRAM_ASKED:
        connection.sasl.step = SASL_NONE
        _prove_scram(door, request, &token)
    else:
        _answer(door, request, KAFKA_ILLEGAL_SASL_STATE, b"SaslHandshake comes first", &nothing)


cdef void authenticate_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaConnection* connection = request.connection
    cdef Bytes token, said
    if not request_pin(door, request) or not _read(request, &token):
        return
    if connection.sasl.step == SASL_PLAIN:
        _prove_plain(door, request, &token)
        return
    _find_secret(door, connection)
    if not _say_salt(connection, &request.texts):
        reply_fail(door, request)
        return
    connection.sasl.step = SASL_SCRAM_ASKED
    said = bytes_of(request.texts.data, request.texts.size)
    _answer(door, request, KAFKA_OK, NULL, &said)
