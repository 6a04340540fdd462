# Encryption of files: keys, the keys that are derived from them, and AES-256-GCM by OpenSSL's libcrypto.
#
# Decides: how a key is derived and which nonce a message gets. Never: reads a file, keeps a plain text, tells a key.
# Two ways to encrypt, both described in docs/formats.md "Encryption":
#     Cipher      many small messages under one derived key, each with a nonce of its own: records of the log
#     sealing     one message under a key that is derived from its content: chunks of sealed files and checkpoints
#
# Threads: any number may read one KeyRing while one adds a key or chooses the current one. A Cipher is its owner's.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_KEY_BYTES = 32
    FORMAT_NONCE_BYTES = 12
    FORMAT_TAG_BYTES = 16
    FORMAT_SALT_BYTES = 16
    FORMAT_SEALING_BYTES = 32   # that sealing adds to a message: its salt and its tag
    KEYS_MAX = 256              # of one ring: rotated each day, a node runs for the better part of a year

cdef struct RingKey:
    uint64_t id                 # derived from the key: a wrong key has another id
    uint8_t[FORMAT_KEY_BYTES] bytes

cdef struct KeyRing:
    uint32_t count              # shared: keys that may be read
    uint64_t current            # shared: id of the key for new files, 0: new files are plain
    uint64_t random             # of a simulated ring: state of next_random; 0: the system's random bytes are used
    RingKey[KEYS_MAX] keys

# One derived key, ready to encrypt or to decrypt, and the nonces that it gave.
cdef struct Cipher:
    void* context               # EVP_CIPHER_CTX; NULL: nothing was begun
    uint64_t key_id             # of the ring's key that it is derived from
    uint64_t salt_low           # and the salt
    uint64_t salt_high
    uint64_t prefix             # random: the first 8 bytes of each nonce
    uint32_t count              # the last 4 bytes of the next one

# random_seed: 0, but in simulations, whose rings must give the same bytes again. NULL: no memory.
cdef KeyRing* key_ring_create(uint64_t random_seed) noexcept nogil
# Keys are overwritten with zeros first.
cdef void key_ring_destroy(KeyRing* ring) noexcept nogil
# The key's id, never 0.
cdef uint64_t key_id_of(const uint8_t* key) noexcept nogil
# Adds FORMAT_KEY_BYTES at `key`; a key that is there is no error. NO_MEMORY: KEYS_MAX keys are there.
cdef status_t key_ring_add(KeyRing* ring, const uint8_t* key) noexcept nogil
# New files use this key from now on; 0: they are plain. NO_KEY.
cdef status_t key_ring_use(KeyRing* ring, uint64_t key_id) noexcept nogil
# The key for new files, 0: they are plain; so is all without a ring.
cdef uint64_t key_ring_current(const KeyRing* ring) noexcept nogil
cdef bint key_ring_has(const KeyRing* ring, uint64_t key_id) noexcept nogil
# A number that nobody can guess, and that never comes twice.
cdef status_t key_ring_random(KeyRing* ring, uint64_t* number) noexcept nogil

# Derive the key of this salt, and draw a prefix. Nothing to do if it is the one that was begun last. NO_KEY, NO_MEMORY.
cdef status_t cipher_begin(Cipher* cipher, KeyRing* ring, uint64_t key_id, uint64_t salt_low,
                           uint64_t salt_high) noexcept nogil
cdef void cipher_end(Cipher* cipher) noexcept nogil
# Encrypt the parts in place, one after another as one message, with a new nonce. `context` is authenticated too.
# NO_MEMORY.
cdef status_t cipher_encrypt(Cipher* cipher, KeyRing* ring, const Vec[uint8_t]* context, const Vec[Slice]* parts,
                             uint8_t* nonce, uint8_t* tag) noexcept nogil
# Decrypt in place. CORRUPT: parts, context, nonce or tag are not what was written, and the parts are worth nothing;
# NO_MEMORY.
cdef status_t cipher_decrypt(Cipher* cipher, const Vec[uint8_t]* context, const Vec[Slice]* parts,
                             const uint8_t* nonce, const uint8_t* tag) noexcept nogil

# The message, length + FORMAT_SEALING_BYTES bytes long, in the place of what `out` had. The same key, context and bytes
# give the same message. NO_KEY, NO_MEMORY.
cdef status_t message_seal(const KeyRing* ring, uint64_t key_id, const uint8_t* context, uint32_t context_length,
                           const uint8_t* bytes, uint32_t length, Vec[uint8_t]* out) noexcept nogil
# Give back the message that was sealed. CORRUPT as above; NO_KEY, NO_MEMORY.
cdef status_t message_open(const KeyRing* ring, uint64_t key_id, const uint8_t* context, uint32_t context_length,
                           const uint8_t* message, uint32_t length, Vec[uint8_t]* out) noexcept nogil
