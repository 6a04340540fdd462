"""Who speaks on a connection of the ZooKeeper door: bodies of auth.pxd.

Sources: apache/zookeeper 3.9.5 DigestAuthenticationProvider, IPAuthenticationProvider, X509AuthenticationProvider,
SASLAuthenticationProvider, ZooKeeperServer.processSasl; RFC 2831, whose realm and host ZooKeeper fixes as zk-sasl-md5.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.doors.zookeeper.protocol cimport ZK_AUTH_FAILED, ZK_OK, ZK_SYSTEM_ERROR
from raftmeta.doors.zookeeper.texts cimport add_text, add_word, text_equals, text_is, text_of
from raftmeta.native.containers cimport Vec
from raftmeta.native.old_digests cimport MD5_BYTES, SHA1_BYTES, base64, hexadecimal, md5, sha1
from raftmeta.native.sha256 cimport are_equal_in_constant_time
from raftmeta.native.text cimport text_is_plain
from raftmeta.status cimport NO_MEMORY, OK, QUOTA_EXCEEDED, status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport Identity

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char* text, void* into)
    int AF_INET
    int AF_INET6

cdef enum:
    IPV4_BYTES = 4
    IPV6_BYTES = 16
    IP_TEXT_MAX = 48                # of an address, with a zero behind it
    HEX_BYTES = 2 * MD5_BYTES
    NONCE_BYTES = 2 * SASL_NONCE_BYTES

cdef const char* REALM = b"zk-sasl-md5"


# --- the identities of a connection -----------------------------------------------------------------------------------
cdef void speaker_init(ZkSpeaker* speaker) noexcept nogil:
    memset(<void*>speaker, 0, sizeof(ZkSpeaker))


cdef void speaker_release(ZkSpeaker* speaker) noexcept nogil:
    speaker.names.release()
    speaker.identities.release()


cdef Identity _identity_at(const ZkSpeaker* speaker, size_t position) noexcept nogil:
    cdef const SpeakerIdentity* kept = speaker.identities.data + position
    cdef Identity identity
    identity.scheme.data = speaker.names.data + kept.at
    identity.scheme.length = kept.scheme_length
    identity.id.data = identity.scheme.data + kept.scheme_length
    identity.id.length = kept.id_length
    return identity


cdef status_t speaker_identities(const ZkSpeaker* speaker, Vec[Identity]* into) noexcept nogil:
    cdef size_t i
    into.clear()
    for i in range(speaker.identities.size):
        if not into.push(_identity_at(speaker, i)):
            return NO_MEMORY
    return OK


cdef status_t speaker_add(ZkSpeaker* speaker, const Bytes* scheme, const Bytes* id) noexcept nogil:
    cdef SpeakerIdentity kept
    cdef Identity other
    cdef size_t i
    for i in range(speaker.identities.size):
        other = _identity_at(speaker, i)
        if text_equals(&other.scheme, scheme) and text_equals(&other.id, id):
            return OK
    if (speaker.identities.size == SPEAKER_IDENTITIES_MAX
            or speaker.names.size + scheme.length + <size_t>id.length > SPEAKER_BYTES_MAX):
        return QUOTA_EXCEEDED
    kept.at = <uint32_t>speaker.names.size
    kept.scheme_length = <uint16_t>scheme.length
    kept.id_length = <uint16_t>id.length
    if not add_text(&speaker.names, scheme) or not add_text(&speaker.names, id) or not speaker.identities.push(kept):
        speaker.names.size = kept.at
        return NO_MEMORY
    return OK


# The decimal digits of one byte.
cdef uint32_t _put_decimal(uint8_t* at, uint8_t value) noexcept nogil:
    cdef uint32_t written = 0
    if value >= 100:
        at[written] = c"0" + value // 100
        written += 1
    if value >= 10:
        at[written] = c"0" + value // 10 % 10
        written += 1
    at[written] = c"0" + value % 10
    return written + 1


# As InetAddress.getHostAddress writes it: eight groups of an IPv6 address, none left out.
cdef uint32_t _put_address(uint8_t* at, const uint8_t* address, uint32_t length) noexcept nogil:
    cdef uint32_t written = 0
    cdef int i
    cdef uint8_t[4] digits
    cdef uint32_t skipped
    if length == IPV4_BYTES:
        for i in range(IPV4_BYTES):
            if i:
                at[written] = c"."
                written += 1
            written += _put_decimal(at + written, address[i])
        return written
    for i in range(0, IPV6_BYTES, 2):
        if i:
            at[written] = c":"
            written += 1
        hexadecimal(address + i, 2, digits)
        skipped = 0
        while skipped < 3 and digits[skipped] == c"0":
            skipped += 1
        memcpy(at + written, digits + skipped, 4 - skipped)
        written += 4 - skipped
    return written


cdef bint _is_mapped(const uint8_t* address) noexcept nogil:
    cdef int i
    for i in range(10):
        if address[i]:
            return False
    return address[10] == 0xff and address[11] == 0xff


cdef status_t speaker_add_ip(ZkSpeaker* speaker, const uint8_t* address, uint32_t length) noexcept nogil:
    cdef uint8_t[IP_TEXT_MAX] text
    cdef Bytes scheme = text_of(b"ip")
    cdef Bytes id
    if length != IPV4_BYTES and length != IPV6_BYTES:
        return OK
    if length == IPV6_BYTES and _is_mapped(address):
        address += IPV6_BYTES - IPV4_BYTES
        length = IPV4_BYTES
    id.data = text
    id.length = _put_address(text, address, length)
    return speaker_add(speaker, &scheme, &id)


cdef status_t speaker_add_x509(ZkSpeaker* speaker, const Bytes* subject) noexcept nogil:
    cdef Bytes scheme = text_of(b"x509")
    return speaker_add(speaker, &scheme, subject)


cdef bint _has_scheme(const ZkSpeaker* speaker, const Bytes* scheme) noexcept nogil:
    cdef Identity identity
    cdef size_t i
    for i in range(speaker.identities.size):
        identity = _identity_at(speaker, i)
        if text_equals(&identity.scheme, scheme):
            return True
    return False


cdef status_t digest_of(const Bytes* user_and_password, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[SHA1_BYTES] hash
    cdef uint8_t[2 * SHA1_BYTES] digits
    cdef Bytes user = user_and_password[0]
    cdef uint32_t length = 0
    while length < user.length and user.data[length] != c":":
        length += 1
    user.length = length
    sha1(user_and_password.data, user_and_password.length, hash)
    length = <uint32_t>base64(hash, SHA1_BYTES, digits)
    return OK if add_text(out, &user) and out.push(c":") and out.append(digits, length) else NO_MEMORY


cdef status_t _add_super(ZkSpeaker* speaker) noexcept nogil:
    cdef Bytes scheme = text_of(b"super")
    cdef Bytes id = text_of(b"")
    return speaker_add(speaker, &scheme, &id)


cdef status_t _add_digest(ZkSpeaker* speaker, const ZkAuthSettings* settings, const Bytes* scheme,
                          const Bytes* token) noexcept nogil:
    cdef Vec[uint8_t] made
    cdef Bytes id
    cdef status_t status
    memset(<void*>&made, 0, sizeof(made))
    status = digest_of(token, &made)
    id.data = made.data
    id.length = <uint32_t>made.size
    if status == OK and settings.super_digest.length and text_equals(&id, &settings.super_digest):
        status = _add_super(speaker)
    if status == OK:
        status = speaker_add(speaker, scheme, &id)
    made.release()
    return status


cdef int32_t speaker_auth(ZkSpeaker* speaker, const ZkAuthSettings* settings, const Bytes* scheme,
                          const Bytes* token) noexcept nogil:
    if text_is(scheme, b"digest"):
        if not text_is_plain(token.data, token.length):
            return ZK_AUTH_FAILED
        return ZK_OK if _add_digest(speaker, settings, scheme, token) == OK else ZK_AUTH_FAILED
    # The socket and the handshake have proved these two, or not; the token says nothing.
    if text_is(scheme, b"ip") or text_is(scheme, b"x509"):
        return ZK_OK if _has_scheme(speaker, scheme) else ZK_AUTH_FAILED
    return ZK_AUTH_FAILED


# --- what a list of rights may name -----------------------------------------------------------------------------------
# "a:b" as String.split(":") takes it apart: empty parts at the end do not count.
cdef bint _is_digest(const Bytes* id) noexcept nogil:
    cdef uint32_t length = id.length
    cdef uint32_t colons = 0
    cdef uint32_t i
    while length and id.data[length - 1] == c":":
        length -= 1
    for i in range(length):
        colons += id.data[i] == c":"
    return colons == 1


# An address, or address/bits.
cdef bint _is_address(const Bytes* id) noexcept nogil:
    cdef char[IP_TEXT_MAX] text
    cdef uint8_t[IPV6_BYTES] address
    cdef uint32_t bits = 0
    cdef uint32_t bits_max
    cdef uint32_t length = 0
    cdef uint32_t i
    while length < id.length and id.data[length] != c"/":
        length += 1
    if length == 0 or length >= IP_TEXT_MAX:
        return False
    memcpy(text, id.data, length)
    text[length] = 0
    if inet_pton(AF_INET, text, address) == 1:
        bits_max = 8 * IPV4_BYTES
    elif inet_pton(AF_INET6, text, address) == 1:
        bits_max = 8 * IPV6_BYTES
    else:
        return False
    if length == id.length:
        return True
    if id.length - length < 2 or id.length - length > 4:
        return False
    for i in range(length + 1, id.length):
        if id.data[i] < c"0" or id.data[i] > c"9":
            return False
        bits = 10 * bits + (id.data[i] - c"0")
    return bits <= bits_max


cdef bint auth_id_is_valid(const Bytes* scheme, const Bytes* id) noexcept nogil:
    cdef uint32_t i
    if not text_is_plain(id.data, id.length):
        return False
    if text_is(scheme, b"digest"):
        return _is_digest(id)
    if text_is(scheme, b"ip"):
        return _is_address(id)
    if text_is(scheme, b"sasl"):
        return id.length != 0
    if text_is(scheme, b"x509"):
        for i in range(id.length):
            if id.data[i] == c"=":
                return True
    return False


# --- DIGEST-MD5 -------------------------------------------------------------------------------------------------------
# The directives of a response that count. Windows into the token, which is not changed; a quoted text with an escape in
# it is refused, because no name and no nonce of ours needs one.
cdef struct Response:
    Bytes username
    Bytes realm
    Bytes nonce
    Bytes cnonce
    Bytes nc
    Bytes qop
    Bytes uri
    Bytes proof
    Bytes authzid


cdef Bytes* _directive(Response* response, const Bytes* name) noexcept nogil:
    if text_is(name, b"username"):
        return &response.username
    if text_is(name, b"realm"):
        return &response.realm
    if text_is(name, b"nonce"):
        return &response.nonce
    if text_is(name, b"cnonce"):
        return &response.cnonce
    if text_is(name, b"nc"):
        return &response.nc
    if text_is(name, b"qop"):
        return &response.qop
    if text_is(name, b"digest-uri"):
        return &response.uri
    if text_is(name, b"response"):
        return &response.proof
    if text_is(name, b"authzid"):
        return &response.authzid
    return NULL


# One value behind '=', quoted or not. False: it has no end, or an escape.
cdef bint _take_value(const Bytes* token, uint32_t* at, Bytes* value) noexcept nogil:
    cdef bint is_quoted = at[0] < token.length and token.data[at[0]] == c'"'
    if is_quoted:
        at[0] += 1
    value.data = token.data + at[0]
    value.length = 0
    while at[0] < token.length:
        if token.data[at[0]] == (c'"' if is_quoted else c","):
            break
        if is_quoted and token.data[at[0]] == c"\\":
            return False
        at[0] += 1
        value.length += 1
    if is_quoted:
        if at[0] == token.length:
            return False
        at[0] += 1
    return True


# name=value, with commas and blanks between.
cdef bint _parse(const Bytes* token, Response* into) noexcept nogil:
    cdef uint32_t at = 0
    cdef Bytes name
    cdef Bytes value
    cdef Bytes* place
    memset(into, 0, sizeof(Response))
    while True:
        while at < token.length and (token.data[at] == c"," or token.data[at] == c" "):
            at += 1
        if at == token.length:
            return True
        name.data = token.data + at
        name.length = 0
        while at < token.length and token.data[at] != c"=":
            at += 1
            name.length += 1
        if at == token.length:
            return False
        at += 1
        if not _take_value(token, &at, &value):
            return False
        place = _directive(into, &name)
        if place != NULL:
            if place.data != NULL:
                return False            # twice
            place[0] = value


# RFC 2831 2.1.2.1: text of ISO 8859-1 is hashed in that form, other text in UTF-8.
cdef bint _add_latin(Vec[uint8_t]* out, const Bytes* text) noexcept nogil:
    cdef uint32_t i = 0
    while i < text.length:
        if text.data[i] > 0xc3:
            return add_text(out, text)
        i += 1
    i = 0
    while i < text.length:
        if text.data[i] < 0xc2 or i + 1 == text.length:
            if not out.push(text.data[i]):
                return False
        else:
            if not out.push(<uint8_t>((text.data[i] & 3) << 6 | (text.data[i + 1] & 0x3f))):
                return False
            i += 1
        i += 1
    return True


# MD5 of all that is in `scratch`, in hexadecimal digits; empties it.
cdef void _hashed(Vec[uint8_t]* scratch, uint8_t* digits) noexcept nogil:
    cdef uint8_t[MD5_BYTES] hash
    md5(scratch.data, scratch.size, hash)
    hexadecimal(hash, MD5_BYTES, digits)
    scratch.clear()


# The client's proof (verb AUTHENTICATE) or the server's (no verb): RFC 2831 2.1.2.1, 2.1.3. False: no memory.
cdef bint _proof(const Response* response, const Bytes* password, const char* verb, Vec[uint8_t]* scratch,
                 uint8_t* digits) noexcept nogil:
    cdef uint8_t[MD5_BYTES] secret
    cdef uint8_t[HEX_BYTES] one
    cdef uint8_t[HEX_BYTES] two
    cdef Bytes realm = text_of(REALM)
    scratch.clear()
    if not (_add_latin(scratch, &response.username) and scratch.push(c":") and add_text(scratch, &realm)
            and scratch.push(c":") and _add_latin(scratch, password)):
        return False
    md5(scratch.data, scratch.size, secret)
    scratch.clear()
    if not (scratch.append(secret, MD5_BYTES) and scratch.push(c":") and add_text(scratch, &response.nonce)
            and scratch.push(c":") and add_text(scratch, &response.cnonce)):
        return False
    if response.authzid.data != NULL and not (scratch.push(c":") and add_text(scratch, &response.authzid)):
        return False
    _hashed(scratch, one)
    if not (add_word(scratch, verb) and scratch.push(c":") and add_text(scratch, &response.uri)):
        return False
    _hashed(scratch, two)
    if not (scratch.append(one, HEX_BYTES) and scratch.push(c":") and add_text(scratch, &response.nonce)
            and scratch.push(c":") and add_text(scratch, &response.nc) and scratch.push(c":")
            and add_text(scratch, &response.cnonce) and add_word(scratch, b":auth:")
            and scratch.append(two, HEX_BYTES)):
        return False
    _hashed(scratch, digits)
    return True


cdef int32_t _challenge(ZkSasl* sasl, const uint8_t* random, Vec[uint8_t]* out) noexcept nogil:
    hexadecimal(random, SASL_NONCE_BYTES, sasl.nonce)
    if not (add_word(out, b'realm="') and add_word(out, REALM) and add_word(out, b'",nonce="')
            and out.append(sasl.nonce, NONCE_BYTES)
            and add_word(out, b'",charset=utf-8,algorithm=md5-sess')):
        return ZK_SYSTEM_ERROR
    sasl.state = SASL_CHALLENGED
    return ZK_OK


# All that a response must say, but the proof.
cdef bint _is_sound(const ZkSasl* sasl, const Response* response) noexcept nogil:
    return (response.username.length != 0 and text_is_plain(response.username.data, response.username.length)
            and text_is(&response.realm, REALM) and response.cnonce.length != 0 and text_is(&response.nc, b"00000001")
            and (response.qop.data == NULL or text_is(&response.qop, b"auth"))
            and response.nonce.length == <uint32_t>NONCE_BYTES
            and memcmp(response.nonce.data, sasl.nonce, NONCE_BYTES) == 0
            and response.uri.length > 10 and memcmp(response.uri.data, b"zookeeper/", 10) == 0
            and response.proof.length == <uint32_t>HEX_BYTES
            and (response.authzid.length == 0 or text_equals(&response.authzid, &response.username)))


cdef Bytes _password_of(const ZkAuthSettings* settings, const Bytes* name, bint* is_known) noexcept nogil:
    cdef uint32_t i
    is_known[0] = False
    for i in range(settings.user_count):
        if text_equals(&settings.users[i].name, name):
            is_known[0] = True
            return settings.users[i].password
    return text_of(b"")


cdef int32_t _judge(ZkSpeaker* speaker, const ZkAuthSettings* settings, const Response* response,
                    Vec[uint8_t]* scratch, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[HEX_BYTES] digits
    cdef bint is_known
    cdef Bytes password = _password_of(settings, &response.username, &is_known)
    cdef Bytes scheme = text_of(b"sasl")
    # A user that does not exist costs as much as one that does.
    if not _proof(response, &password, b"AUTHENTICATE", scratch, digits):
        return ZK_SYSTEM_ERROR
    if not are_equal_in_constant_time(digits, response.proof.data, HEX_BYTES) or not is_known:
        return ZK_AUTH_FAILED
    if not _proof(response, &password, b"", scratch, digits):
        return ZK_SYSTEM_ERROR
    if text_is(&response.username, b"super") and _add_super(speaker) != OK:
        return ZK_AUTH_FAILED
    if speaker_add(speaker, &scheme, &response.username) != OK:
        return ZK_AUTH_FAILED
    return ZK_OK if add_word(out, b"rspauth=") and out.append(digits, HEX_BYTES) else ZK_SYSTEM_ERROR


cdef int32_t sasl_step(ZkSasl* sasl, ZkSpeaker* speaker, const ZkAuthSettings* settings, const Bytes* token,
                       const uint8_t* random, Vec[uint8_t]* out) noexcept nogil:
    cdef Response response
    cdef Vec[uint8_t] scratch
    cdef int32_t error
    if settings.user_count == 0 or sasl.state == SASL_FAILED or token.length > SASL_TOKEN_BYTES_MAX:
        sasl.state = SASL_FAILED
        return ZK_AUTH_FAILED
    if sasl.state != SASL_CHALLENGED:
        if token.length == 0:
            return _challenge(sasl, random, out)
        sasl.state = SASL_FAILED        # another mechanism speaks first
        return ZK_AUTH_FAILED
    sasl.state = SASL_FAILED            # a challenge is answered once
    if not _parse(token, &response) or not _is_sound(sasl, &response):
        return ZK_AUTH_FAILED
    memset(<void*>&scratch, 0, sizeof(scratch))
    error = _judge(speaker, settings, &response, &scratch, out)
    scratch.release()
    if error == ZK_OK:
        sasl.state = SASL_DONE
    return error
