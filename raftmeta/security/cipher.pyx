"""Encryption of files: bodies.

It decides nothing that docs/formats.md "Encryption" does not say. It must never give one nonce twice under
one derived key.

    records     derived key: of the segment's uuid, 128 random bits, drawn for each life of a file
                nonce: 64 random bits, drawn by each process that writes to the segment, and a counter of its messages
    sealing     derived key: of a salt, which is a keyed hash of context and content; the nonce is 0, and used once

Why no nonce is a place in a file: a batch that was torn or refused is written again at its place with other content,
and a folder may be put back to an older copy. The counter never goes back within a process, and another process has
another prefix. A sealed message of other content has another salt, so it has another key.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.native.atomics cimport load_acquire, store_release
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.security.cipher cimport (FORMAT_KEY_BYTES, FORMAT_NONCE_BYTES, FORMAT_SALT_BYTES, FORMAT_SEALING_BYTES,
                                       FORMAT_TAG_BYTES, KEYS_MAX, Cipher, KeyRing)
from raftmeta.status cimport CORRUPT, DISK_FAILED, NO_KEY, NO_MEMORY, OK, status_t


cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_CIPHER_CTX:
        pass
    ctypedef struct EVP_CIPHER:
        pass
    ctypedef struct EVP_MD_CTX:
        pass
    ctypedef struct EVP_MD:
        pass
    enum:
        EVP_CTRL_AEAD_GET_TAG
        EVP_CTRL_AEAD_SET_TAG
    EVP_CIPHER_CTX* EVP_CIPHER_CTX_new()
    void EVP_CIPHER_CTX_free(EVP_CIPHER_CTX* context)
    const EVP_CIPHER* EVP_aes_256_gcm()
    int EVP_CipherInit_ex(EVP_CIPHER_CTX* context, const EVP_CIPHER* cipher, void* engine, const uint8_t* key,
                          const uint8_t* nonce, int encrypts)
    int EVP_CipherUpdate(EVP_CIPHER_CTX* context, uint8_t* out, int* written, const uint8_t* bytes, int length)
    int EVP_CipherFinal_ex(EVP_CIPHER_CTX* context, uint8_t* out, int* written)
    int EVP_CIPHER_CTX_ctrl(EVP_CIPHER_CTX* context, int type, int length, void* value)
    const EVP_MD* EVP_sha256()
    EVP_MD_CTX* EVP_MD_CTX_new()
    void EVP_MD_CTX_free(EVP_MD_CTX* context)
    int EVP_DigestInit_ex(EVP_MD_CTX* context, const EVP_MD* digest, void* engine)
    int EVP_DigestUpdate(EVP_MD_CTX* context, const void* bytes, size_t length)
    int EVP_DigestFinal_ex(EVP_MD_CTX* context, uint8_t* digest, unsigned* length)


cdef extern from "<openssl/hmac.h>" nogil:
    uint8_t* HMAC(const EVP_MD* digest, const void* key, int key_length, const uint8_t* bytes, size_t length,
                  uint8_t* code, unsigned* code_length)


cdef extern from "<openssl/crypto.h>" nogil:
    void OPENSSL_cleanse(void* bytes, size_t length)


cdef extern from "<openssl/rand.h>" nogil:
    int RAND_bytes(uint8_t* bytes, int length)

cdef enum:
    HASH_BYTES = 32
    INFO_BYTES_MAX = 32 + 32 + 1      # label, salt, number
    STEP_BYTES = 1 << 30        # OpenSSL counts in int

# FORMAT_: what a derived key is for.
cdef const char* LABEL_ID = "raftmeta key id"
cdef const char* LABEL_RECORDS = "raftmeta log records"
cdef const char* LABEL_SALT = "raftmeta sealing salt"
cdef const char* LABEL_SEALING = "raftmeta sealing"


# --- keys -------------------------------------------------------------------------------------------------------------
# HKDF-Expand of RFC 5869 for 32 bytes: HMAC-SHA-256(key, label, salt, 1).
cdef bint _derive(const uint8_t* key, const char* label, const uint8_t* salt, uint32_t salt_length,
                  uint8_t* out) noexcept nogil:
    cdef uint8_t[INFO_BYTES_MAX] info
    cdef uint32_t length = 0
    cdef unsigned written = 0
    while label[length] != 0:
        info[length] = <uint8_t>label[length]
        length += 1
    memcpy(info + length, salt, salt_length)
    info[length + salt_length] = 1
    return HMAC(EVP_sha256(), key, FORMAT_KEY_BYTES, info, length + salt_length + 1, out, &written) != NULL


cdef uint64_t key_id_of(const uint8_t* key) noexcept nogil:
    cdef uint8_t[HASH_BYTES] derived
    cdef uint64_t id
    memset(derived, 0, HASH_BYTES)
    if not _derive(key, LABEL_ID, derived, 0, derived):
        return 0
    memcpy(&id, derived, sizeof(id))
    return id if id != 0 else <uint64_t>1


cdef KeyRing* key_ring_create(uint64_t random_seed) noexcept nogil:
    cdef KeyRing* ring = <KeyRing*>calloc(1, sizeof(KeyRing))
    if ring != NULL:
        ring.random = random_seed
    return ring


cdef void key_ring_destroy(KeyRing* ring) noexcept nogil:
    if ring != NULL:
        OPENSSL_cleanse(ring, sizeof(KeyRing))
        free(ring)


cdef const uint8_t* _find(const KeyRing* ring, uint64_t key_id) noexcept nogil:
    cdef uint32_t count, i
    if ring == NULL:
        return NULL
    count = load_acquire(&(<KeyRing*>ring).count)
    for i in range(count):
        if ring.keys[i].id == key_id:
            return ring.keys[i].bytes
    return NULL


cdef bint key_ring_has(const KeyRing* ring, uint64_t key_id) noexcept nogil:
    return _find(ring, key_id) != NULL


cdef status_t key_ring_add(KeyRing* ring, const uint8_t* key) noexcept nogil:
    cdef uint64_t id = key_id_of(key)
    if id == 0 or (ring.count == KEYS_MAX and not key_ring_has(ring, id)):
        return NO_MEMORY
    if not key_ring_has(ring, id):
        ring.keys[ring.count].id = id
        memcpy(ring.keys[ring.count].bytes, key, FORMAT_KEY_BYTES)
        store_release(&ring.count, <uint32_t>(ring.count + 1))
    return OK


cdef status_t key_ring_use(KeyRing* ring, uint64_t key_id) noexcept nogil:
    if key_id != 0 and not key_ring_has(ring, key_id):
        return NO_KEY
    store_release(&ring.current, key_id)
    return OK


cdef uint64_t key_ring_current(const KeyRing* ring) noexcept nogil:
    return load_acquire(&(<KeyRing*>ring).current) if ring != NULL else <uint64_t>0


cdef status_t key_ring_random(KeyRing* ring, uint64_t* number) noexcept nogil:
    if ring.random != 0:
        number[0] = next_random(&ring.random)
        return OK
    # Without random bytes nothing may be encrypted: a nonce could come twice.
    return OK if RAND_bytes(<uint8_t*>number, sizeof(uint64_t)) == 1 else <status_t>DISK_FAILED


# --- AES-256-GCM ------------------------------------------------------------------------------------------------------
cdef EVP_CIPHER_CTX* _begin(const uint8_t* derived) noexcept nogil:
    cdef EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new()
    if context != NULL and EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, derived, NULL, 1) != 1:
        EVP_CIPHER_CTX_free(context)
        return NULL
    return context


cdef bint _update(EVP_CIPHER_CTX* context, uint8_t* out, const uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef uint64_t step
    cdef int written = 0
    while length != 0:
        step = min(length, <uint64_t>STEP_BYTES)
        if EVP_CipherUpdate(context, out, &written, bytes, <int>step) != 1:
            return False
        bytes += step
        length -= step
        if out != NULL:
            out += step
    return True


cdef bint _begin_message(EVP_CIPHER_CTX* context, bint encrypts, const uint8_t* nonce, const uint8_t* about,
                         uint64_t about_length) noexcept nogil:
    return (EVP_CipherInit_ex(context, NULL, NULL, NULL, nonce, encrypts) == 1
            and _update(context, NULL, about, about_length))


# `end` is a place that nothing is written to. False: OpenSSL has no memory.
cdef bint _end_encryption(EVP_CIPHER_CTX* context, uint8_t* end, uint8_t* tag) noexcept nogil:
    cdef int written = 0
    return (EVP_CipherFinal_ex(context, end, &written) == 1
            and EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, FORMAT_TAG_BYTES, tag) == 1)


cdef status_t _end_decryption(EVP_CIPHER_CTX* context, uint8_t* end, const uint8_t* tag) noexcept nogil:
    cdef int written = 0
    if EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, FORMAT_TAG_BYTES, <void*>tag) != 1:
        return NO_MEMORY
    return OK if EVP_CipherFinal_ex(context, end, &written) == 1 else <status_t>CORRUPT


# --- many messages under one key --------------------------------------------------------------------------------------
cdef status_t _draw_prefix(Cipher* cipher, KeyRing* ring) noexcept nogil:
    cipher.count = 0
    return key_ring_random(ring, &cipher.prefix)


cdef status_t cipher_begin(Cipher* cipher, KeyRing* ring, uint64_t key_id, uint64_t salt_low,
                           uint64_t salt_high) noexcept nogil:
    cdef uint8_t[HASH_BYTES] derived
    cdef uint64_t[2] salt
    cdef const uint8_t* key
    if (cipher.context != NULL and cipher.key_id == key_id and cipher.salt_low == salt_low
            and cipher.salt_high == salt_high):
        return OK
    cipher_end(cipher)
    key = _find(ring, key_id)
    if key == NULL:
        return NO_KEY
    salt[0] = salt_low
    salt[1] = salt_high
    if not _derive(key, LABEL_RECORDS, <const uint8_t*>salt, sizeof(salt), derived):
        return NO_MEMORY
    cipher.context = _begin(derived)
    OPENSSL_cleanse(derived, HASH_BYTES)
    if cipher.context == NULL:
        return NO_MEMORY
    cipher.key_id = key_id
    cipher.salt_low = salt_low
    cipher.salt_high = salt_high
    return _draw_prefix(cipher, ring)


cdef void cipher_end(Cipher* cipher) noexcept nogil:
    EVP_CIPHER_CTX_free(<EVP_CIPHER_CTX*>cipher.context)
    memset(cipher, 0, sizeof(Cipher))


cdef bint _update_parts(EVP_CIPHER_CTX* context, const Vec[Slice]* parts) noexcept nogil:
    cdef size_t i
    for i in range(parts.size):
        if not _update(context, parts.data[i].data, parts.data[i].data, parts.data[i].length):
            return False
    return True


cdef status_t cipher_encrypt(Cipher* cipher, KeyRing* ring, const Vec[uint8_t]* context, const Vec[Slice]* parts,
                             uint8_t* nonce, uint8_t* tag) noexcept nogil:
    cdef EVP_CIPHER_CTX* evp = <EVP_CIPHER_CTX*>cipher.context
    cdef status_t status = OK
    if cipher.count == ~<uint32_t>0:
        status = _draw_prefix(cipher, ring)
    if status != OK:
        return status
    memcpy(nonce, &cipher.prefix, sizeof(uint64_t))
    memcpy(nonce + sizeof(uint64_t), &cipher.count, sizeof(uint32_t))
    cipher.count += 1
    if not (_begin_message(evp, True, nonce, context.data, context.size) and _update_parts(evp, parts)
            and _end_encryption(evp, tag, tag)):
        return NO_MEMORY
    return OK


cdef status_t cipher_decrypt(Cipher* cipher, const Vec[uint8_t]* context, const Vec[Slice]* parts,
                             const uint8_t* nonce, const uint8_t* tag) noexcept nogil:
    cdef EVP_CIPHER_CTX* evp = <EVP_CIPHER_CTX*>cipher.context
    cdef uint8_t[FORMAT_TAG_BYTES] end
    if not (_begin_message(evp, False, nonce, context.data, context.size) and _update_parts(evp, parts)):
        return NO_MEMORY
    return _end_decryption(evp, end, tag)


# --- sealing ----------------------------------------------------------------------------------------------------------
# The salt is a keyed hash of context and content: one for other content means another one.
cdef bint _salt_of(const uint8_t* key, const uint8_t* about, uint32_t about_length, const uint8_t* bytes,
                   uint32_t length, uint8_t* salt) noexcept nogil:
    cdef uint8_t[HASH_BYTES] digest
    cdef uint64_t lengths = <uint64_t>about_length << 32 | length
    cdef unsigned written = 0
    cdef EVP_MD_CTX* context = EVP_MD_CTX_new()
    cdef bint is_made = (context != NULL and EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1
                         and EVP_DigestUpdate(context, &lengths, sizeof(lengths)) == 1
                         and EVP_DigestUpdate(context, about, about_length) == 1
                         and EVP_DigestUpdate(context, bytes, length) == 1
                         and EVP_DigestFinal_ex(context, digest, &written) == 1
                         and _derive(key, LABEL_SALT, digest, HASH_BYTES, digest))
    EVP_MD_CTX_free(context)
    memcpy(salt, digest, FORMAT_SALT_BYTES)
    return is_made


cdef EVP_CIPHER_CTX* _begin_sealing(const uint8_t* key, const uint8_t* salt) noexcept nogil:
    cdef uint8_t[HASH_BYTES] derived
    cdef EVP_CIPHER_CTX* context = NULL
    if _derive(key, LABEL_SEALING, salt, FORMAT_SALT_BYTES, derived):
        context = _begin(derived)
    OPENSSL_cleanse(derived, HASH_BYTES)
    return context


cdef status_t message_seal(const KeyRing* ring, uint64_t key_id, const uint8_t* context, uint32_t context_length,
                           const uint8_t* bytes, uint32_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[FORMAT_NONCE_BYTES] nonce
    cdef const uint8_t* key = _find(ring, key_id)
    cdef EVP_CIPHER_CTX* cipher = NULL
    cdef uint8_t* body
    cdef status_t status = NO_MEMORY
    if key == NULL:
        return NO_KEY
    if not out.resize(<size_t>length + FORMAT_SEALING_BYTES):
        return NO_MEMORY
    memset(nonce, 0, FORMAT_NONCE_BYTES)
    body = out.data + FORMAT_SALT_BYTES
    if _salt_of(key, context, context_length, bytes, length, out.data):
        cipher = _begin_sealing(key, out.data)
    if (cipher != NULL and _begin_message(cipher, True, nonce, context, context_length)
            and _update(cipher, body, bytes, length) and _end_encryption(cipher, body + length, body + length)):
        status = OK
    EVP_CIPHER_CTX_free(cipher)
    return status


cdef status_t message_open(const KeyRing* ring, uint64_t key_id, const uint8_t* context, uint32_t context_length,
                           const uint8_t* message, uint32_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[FORMAT_NONCE_BYTES] nonce
    cdef const uint8_t* key = _find(ring, key_id)
    cdef const uint8_t* body = message + FORMAT_SALT_BYTES
    cdef EVP_CIPHER_CTX* cipher
    cdef status_t status = NO_MEMORY
    if key == NULL:
        return NO_KEY
    if length < FORMAT_SEALING_BYTES:
        return CORRUPT
    length -= FORMAT_SEALING_BYTES
    if not out.resize(<size_t>length + FORMAT_TAG_BYTES):       # the end of the message is a place, too
        return NO_MEMORY
    memset(nonce, 0, FORMAT_NONCE_BYTES)
    cipher = _begin_sealing(key, message)
    if (cipher != NULL and _begin_message(cipher, False, nonce, context, context_length)
            and _update(cipher, out.data, body, length)):
        status = _end_decryption(cipher, out.data + length, body + length)
    EVP_CIPHER_CTX_free(cipher)
    out.size = length if status == OK else 0
    return status
