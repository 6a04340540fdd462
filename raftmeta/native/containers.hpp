// Containers of the native threads: plain structs, valid when zeroed, that never throw.
//
// They decide nothing. They never throw, call Python, keep a global or run a constructor.
// Growth that fails returns false or NULL and leaves the container as it was; the caller turns that into a
// Fatal status that stops the node (ARCHITECTURE "Native code").
// T must be trivially copyable: elements move by memcpy and no destructor runs. A zeroed struct is an empty
// container, so structs that hold containers are made with calloc; every owner calls release() once.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace raftmeta {

// A growable array. data[0 .. size).
template <class T>
struct Vec {
    T* data;
    size_t size;
    size_t capacity;

    bool reserve(size_t wanted) noexcept {
        if (wanted <= capacity) return true;
        if (wanted > SIZE_MAX / 4 / sizeof(T)) return false;  // doubling and the product below stay in range
        size_t grown = capacity ? capacity : 8;
        while (grown < wanted) grown *= 2;
        T* moved = static_cast<T*>(realloc(static_cast<void*>(data), grown * sizeof(T)));
        if (!moved) return false;
        data = moved;
        capacity = grown;
        return true;
    }
    bool push(const T& value) noexcept {
        if (size == capacity) {
            T kept = value;  // value may live inside data, which reserve moves
            if (!reserve(size + 1)) return false;
            data[size++] = kept;
            return true;
        }
        data[size++] = value;
        return true;
    }
    // values lie outside of this Vec, whose memory may move.
    bool append(const T* values, size_t count) noexcept {
        if (!reserve(size + count)) return false;
        if (count) memcpy(static_cast<void*>(data + size), values, count * sizeof(T));
        size += count;
        return true;
    }
    // Size becomes count; added elements are zeroed.
    bool resize(size_t count) noexcept {
        if (!reserve(count)) return false;
        if (count > size) memset(static_cast<void*>(data + size), 0, (count - size) * sizeof(T));
        size = count;
        return true;
    }
    // Elements [0, count) are dropped, the rest move down.
    void drop_front(size_t count) noexcept {
        if (count >= size) { size = 0; return; }
        memmove(static_cast<void*>(data), data + count, (size - count) * sizeof(T));
        size -= count;
    }
    T& at(size_t position) noexcept { return data[position]; }
    T& back() noexcept { return data[size - 1]; }
    void pop() noexcept { --size; }
    void clear() noexcept { size = 0; }
    void release() noexcept { free(static_cast<void*>(data)); data = nullptr; size = capacity = 0; }
};

// A growable queue: push at the back, pop at the front, index from the front.
template <class T>
struct Ring {
    T* data;
    size_t head;      // position of the front element
    size_t size;
    size_t capacity;  // 0 or a power of two

    bool push(const T& value) noexcept {
        if (size == capacity) {
            T kept = value;
            if (!grow()) return false;
            data[(head + size++) & (capacity - 1)] = kept;
            return true;
        }
        data[(head + size++) & (capacity - 1)] = value;
        return true;
    }
    T& at(size_t position) noexcept { return data[(head + position) & (capacity - 1)]; }
    T& front() noexcept { return data[head]; }
    T& back() noexcept { return at(size - 1); }
    void pop_front() noexcept { head = (head + 1) & (capacity - 1); --size; }
    void drop_front(size_t count) noexcept { head = (head + count) & (capacity - 1); size -= count; }
    void pop_back() noexcept { --size; }
    void clear() noexcept { head = size = 0; }
    void release() noexcept { free(static_cast<void*>(data)); data = nullptr; head = size = capacity = 0; }

  private:
    bool grow() noexcept {
        size_t grown = capacity ? capacity * 2 : 8;
        T* moved = static_cast<T*>(malloc(grown * sizeof(T)));
        if (!moved) return false;
        for (size_t i = 0; i < size; ++i) memcpy(static_cast<void*>(moved + i), &at(i), sizeof(T));
        free(static_cast<void*>(data));
        data = moved;
        head = 0;
        capacity = grown;
        return true;
    }
};

// A hash table from a 64-bit key to V: open addressing, linear probing, deletion by shifting back.
// Pointers to values are valid until the next insert or erase. Iteration: position from next(0) on, until end().
template <class V>
struct Map64 {
    struct Slot { uint64_t key; uint8_t used; V value; };
    Slot* slots;
    size_t size;
    size_t capacity;  // 0 or a power of two; never more than 7/8 full

    static size_t spread(uint64_t key) noexcept {
        key ^= key >> 32;
        key *= 0x9E3779B97F4A7C15ull;
        return static_cast<size_t>(key ^ (key >> 29));
    }
    V* find(uint64_t key) noexcept {
        if (!size) return nullptr;
        for (size_t i = spread(key) & (capacity - 1); slots[i].used; i = (i + 1) & (capacity - 1))
            if (slots[i].key == key) return &slots[i].value;
        return nullptr;
    }
    // The value under key, zeroed if it is new; NULL: no memory, nothing changed.
    V* insert(uint64_t key) noexcept {
        if (V* found = find(key)) return found;
        if ((size + 1) * 8 > capacity * 7 && !grow()) return nullptr;
        size_t i = spread(key) & (capacity - 1);
        while (slots[i].used) i = (i + 1) & (capacity - 1);
        memset(static_cast<void*>(&slots[i]), 0, sizeof(Slot));
        slots[i].key = key;
        slots[i].used = 1;
        ++size;
        return &slots[i].value;
    }
    bool erase(uint64_t key) noexcept {
        if (!size) return false;
        size_t mask = capacity - 1, i = spread(key) & mask;
        while (slots[i].used && slots[i].key != key) i = (i + 1) & mask;
        if (!slots[i].used) return false;
        for (size_t j = (i + 1) & mask; slots[j].used; j = (j + 1) & mask) {
            size_t home = spread(slots[j].key) & mask;
            if (((j - home) & mask) < ((j - i) & mask)) continue;  // it would come before its home
            memcpy(static_cast<void*>(&slots[i]), &slots[j], sizeof(Slot));
            i = j;
        }
        slots[i].used = 0;
        --size;
        return true;
    }
    // First used position at or after `position`; capacity when there is none.
    size_t next(size_t position) noexcept {
        while (position < capacity && !slots[position].used) ++position;
        return position;
    }
    uint64_t key_at(size_t position) noexcept { return slots[position].key; }
    V& value_at(size_t position) noexcept { return slots[position].value; }
    size_t end() noexcept { return capacity; }
    void clear() noexcept {
        if (slots) memset(static_cast<void*>(slots), 0, capacity * sizeof(Slot));
        size = 0;
    }
    void release() noexcept { free(static_cast<void*>(slots)); slots = nullptr; size = capacity = 0; }

  private:
    bool grow() noexcept {
        size_t grown = capacity ? capacity * 2 : 16;
        Slot* fresh = static_cast<Slot*>(calloc(grown, sizeof(Slot)));
        if (!fresh) return false;
        for (size_t i = 0; i < capacity; ++i) {
            if (!slots[i].used) continue;
            size_t j = spread(slots[i].key) & (grown - 1);
            while (fresh[j].used) j = (j + 1) & (grown - 1);
            memcpy(static_cast<void*>(&fresh[j]), &slots[i], sizeof(Slot));
        }
        free(static_cast<void*>(slots));
        slots = fresh;
        capacity = grown;
        return true;
    }
};

}  // namespace raftmeta
