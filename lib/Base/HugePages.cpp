// SPDX-License-Identifier: Apache-2.0
// Where tcmalloc gets its memory from: it asks sbrk, which is this one in compiler commands. What a
// deep model becomes is a gigabyte of small pieces that point at each other; in pages of 4 KiB
// every other step along them misses the translation of addresses too.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace {

constexpr uintptr_t kPage = uintptr_t(2) << 20;
/// Of what is asked of the system at once.
constexpr uintptr_t kLeast = uintptr_t(64) << 20;

std::mutex mutex;
uintptr_t next = 0, end = 0; ///< of what nobody has yet

/// Takes addresses from the system, whose pages come as they are written to.
bool take(uintptr_t bytes) {
  uintptr_t size = std::max(kLeast, (bytes + kPage - 1) / kPage * kPage);
  void *memory = mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  next = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  end = next + size;
  madvise(reinterpret_cast<void *>(next), size, MADV_HUGEPAGE); // where the system has them
  return true;
}

} // namespace

/// Never gives back: tcmalloc does not ask for that. What is left of a stretch that is too short
/// for the next request was never written to and takes no memory.
extern "C" void *sbrk(intptr_t bytes) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (bytes < 0 || (end - next < static_cast<uintptr_t>(bytes) && !take(bytes))) {
    errno = ENOMEM;
    return reinterpret_cast<void *>(-1);
  }
  void *memory = reinterpret_cast<void *>(next);
  next += bytes;
  return memory;
}
