// SPDX-License-Identifier: Apache-2.0
// Files, and arithmetic by NCCL's types.
#include "../../lib/Runtime/comm/nccl/NcclCalls.h"
#include "Nccl.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace emulated {

namespace cuda = autopar::runtime::cuda;

void SharedFolder::create() const { std::filesystem::create_directories(path); }
void SharedFolder::put(const std::string &name, const void *data, size_t bytes) const {
  static std::atomic<int> count{0};
  std::string made = path + "/.new-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  std::ofstream(made, std::ios::binary).write(static_cast<const char *>(data), long(bytes));
  std::error_code ignored;
  std::filesystem::rename(made, path + "/" + name, ignored);
}
bool SharedFolder::has(const std::string &name) const {
  return access((path + "/" + name).c_str(), F_OK) == 0;
}
std::vector<uint8_t> SharedFolder::get(const std::string &name) const {
  std::ifstream file(path + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void SharedFolder::remove(const std::string &name) const { unlink((path + "/" + name).c_str()); }
void SharedFolder::removeAll() const {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

namespace {

struct Bf16 {
  uint16_t bits;
  operator float() const {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  Bf16 &operator=(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    bits = uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    return *this;
  }
};

template <typename T, typename A>
bool reduce(uint8_t *sum, const uint8_t *more, uint64_t count, int operation) {
  for (uint64_t i = 0; i < count; ++i) {
    T own, other;
    std::memcpy(&own, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&other, more + i * sizeof(T), sizeof(T));
    A a = A(own), b = A(other);
    own = operation == cuda::kNcclSum    ? A(a + b)
          : operation == cuda::kNcclProd ? A(a * b)
          : operation == cuda::kNcclMax  ? (a > b ? a : b)
                                         : (a < b ? a : b);
    std::memcpy(sum + i * sizeof(T), &own, sizeof(T));
  }
  return operation >= cuda::kNcclSum && operation <= cuda::kNcclMin;
}

} // namespace

uint64_t bytesOfType(int type) {
  constexpr uint64_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? bytes[type] : 0;
}

bool reduceInto(uint8_t *sum, const uint8_t *more, uint64_t count, int type, int operation) {
  switch (type) {
  case cuda::kNcclI8:
    return reduce<int8_t, int>(sum, more, count, operation);
  case cuda::kNcclU8:
    return reduce<uint8_t, unsigned>(sum, more, count, operation);
  case cuda::kNcclI32:
    return reduce<int32_t, int64_t>(sum, more, count, operation);
  case cuda::kNcclU32:
    return reduce<uint32_t, uint64_t>(sum, more, count, operation);
  case cuda::kNcclI64:
    return reduce<int64_t, int64_t>(sum, more, count, operation);
  case cuda::kNcclU64:
    return reduce<uint64_t, uint64_t>(sum, more, count, operation);
  case cuda::kNcclF16:
    return reduce<_Float16, float>(sum, more, count, operation);
  case cuda::kNcclF32:
    return reduce<float, float>(sum, more, count, operation);
  case cuda::kNcclF64:
    return reduce<double, double>(sum, more, count, operation);
  case cuda::kNcclBF16:
    return reduce<Bf16, float>(sum, more, count, operation);
  }
  return false;
}

} // namespace emulated
