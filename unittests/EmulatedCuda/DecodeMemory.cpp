// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics.
#include "Decoder.h"

namespace emulated {

namespace {

constexpr uint32_t kNarrowAddress = 1, kReadOnly = 2, kSpaceBits = 2;
Warp::Space spaceOf(const Operation &op) { return Warp::Space(op.e >> kSpaceBits); }

inline uint8_t *reach(Warp &warp, const Operation &op, uint32_t bytes, uint32_t lane, Access access,
                      const void *written = nullptr) {
  uint64_t address = (op.e & kNarrowAddress ? warp.lanes<uint32_t>(op.a)[lane]
                                            : warp.lanes<uint64_t>(op.a)[lane]) +
                     uint64_t(op.offset);
  Block &block = *warp.block;
  // Mostly the same tensor as before.
  if (address >= block.begin && address + bytes <= block.end && (address & (bytes - 1)) == 0 &&
      spaceOf(op) <= Warp::Space::Global)
    return block.host + (address - block.begin);
  return warp.reach(spaceOf(op), address, bytes, lane, op, access, written);
}

template <typename M, typename R>
void load(Warp &warp, const Operation &op) {
  uint32_t bytes = uint32_t(op.vector.size() * sizeof(M));
  Access access = op.e & kReadOnly ? Access::ReadOnlyLoad : Access::Load;
  if (op.vector.size() == 1) {
    R *d = warp.lanes<R>(op.vector[0]);
    return eachLane(warp, [&](uint32_t l) {
      M value;
      std::memcpy(&value, reach(warp, op, sizeof(M), l, access), sizeof(M));
      d[l] = R(value);
    });
  }
  eachLane(warp, [&](uint32_t l) {
    const uint8_t *from = reach(warp, op, bytes, l, access);
    M values[8];
    std::memcpy(values, from, bytes);
    for (size_t i = 0; i < op.vector.size(); ++i)
      warp.lanes<R>(op.vector[i])[l] = R(values[i]);
  });
}
template <typename M, typename R>
void store(Warp &warp, const Operation &op) {
  uint32_t bytes = uint32_t(op.vector.size() * sizeof(M));
  eachLane(warp, [&](uint32_t l) {
    M values[8];
    for (size_t i = 0; i < op.vector.size(); ++i)
      values[i] = M(warp.lanes<R>(op.vector[i])[l]);
    std::memcpy(reach(warp, op, bytes, l, Access::Store, values), values, bytes);
  });
}

/// Accesses of `bytes` per element are watched as finely as that.
void refineGranules(Kernel &kernel, Warp::Space space, uint32_t bytes) {
  if (space == Warp::Space::Shared || space == Warp::Space::Generic)
    kernel.sharedGranule = std::min(kernel.sharedGranule, bytes);
  if (space == Warp::Space::Global || space == Warp::Space::Generic)
    kernel.globalGranule = std::min(kernel.globalGranule, bytes);
}

template <typename M>
Execute memoryFunction(bool isLoad, uint32_t registerBytes) {
  if (registerBytes == 2)
    return isLoad ? &load<M, uint16_t> : &store<M, uint16_t>;
  if (registerBytes == 4)
    return isLoad ? &load<M, uint32_t> : &store<M, uint32_t>;
  return isLoad ? &load<M, uint64_t> : &store<M, uint64_t>;
}

} // namespace

void Decoder::addMemory(bool isLoad) {
  static const std::set<std::string> harmless = {"ld",
                                                 "st",
                                                 "global",
                                                 "shared",
                                                 "shared::cta",
                                                 "local",
                                                 "param",
                                                 "const",
                                                 "v2",
                                                 "v4",
                                                 "v8",
                                                 "nc",
                                                 "ca",
                                                 "cg",
                                                 "cs",
                                                 "lu",
                                                 "cv",
                                                 "wb",
                                                 "wt",
                                                 "volatile",
                                                 "weak",
                                                 "relaxed",
                                                 "acquire",
                                                 "release",
                                                 "cta",
                                                 "gpu",
                                                 "sys",
                                                 "L1::no_allocate",
                                                 "L1::evict_last",
                                                 "L1::evict_first",
                                                 "L1::evict_normal",
                                                 "L2::128B",
                                                 "L2::256B",
                                                 "L2::64B"};
  for (size_t i = 0; i + 1 < statement->opcode.size(); ++i)
    if (!harmless.count(statement->opcode[i]))
      unknown();
  Warp::Space space = has("global")                         ? Warp::Space::Global
                      : has("shared") || has("shared::cta") ? Warp::Space::Shared
                      : has("local")                        ? Warp::Space::Local
                      : has("param")                        ? Warp::Space::Parameter
                      : has("const")                        ? Warp::Space::Global
                                                            : Warp::Space::Generic;
  const Operand &address = operand(isLoad ? 1 : 0), &value = operand(isLoad ? 0 : 1);
  op.offset = address.offset;
  op.e = uint32_t(space) << kSpaceBits | (has("nc") ? kReadOnly : 0);
  auto reg = registers.find(address.name);
  if (reg != registers.end()) {
    op.a = reg->second.first;
    if (reg->second.second == 4)
      op.e |= kNarrowAddress;
    else if (reg->second.second != 8)
      fail("an address of 16 bits");
  } else if (address.name.empty()) {
    op.a = constant(0, 8);
  } else if (space == Warp::Space::Parameter) {
    auto found = parameters.find(address.name);
    if (found == parameters.end())
      fail("there is no parameter " + address.name);
    op.a = constant(found->second, 8);
  } else {
    Operand symbol;
    symbol.name = address.name;
    op.a = place(symbol, 8);
  }
  uint32_t bytes = bytesOf(type()), registerBytes = 0;
  refineGranules(kernel, space, bytes);
  const std::vector<Operand> alone = {value};
  for (const Operand &element : value.kind == Operand::Kind::Vector ? value.elements : alone) {
    auto found = registers.find(element.name);
    uint32_t own = found != registers.end() ? found->second.second : std::max(bytes, 2u);
    if (own < bytes || (registerBytes && own != registerBytes))
      fail("a register is too small");
    registerBytes = own;
    op.vector.push_back(place(element, own));
  }
  switch (type()) {
  case NumberType::U8:
    return emit(memoryFunction<uint8_t>(isLoad, registerBytes));
  case NumberType::S8:
    return emit(memoryFunction<int8_t>(isLoad, registerBytes));
  case NumberType::S16:
    return emit(memoryFunction<int16_t>(isLoad, registerBytes));
  case NumberType::U16:
  case NumberType::F16:
  case NumberType::BF16:
    return emit(memoryFunction<uint16_t>(isLoad, registerBytes));
  case NumberType::S32:
    return emit(memoryFunction<int32_t>(isLoad, registerBytes));
  case NumberType::U32:
  case NumberType::F32:
  case NumberType::F16x2:
  case NumberType::BF16x2:
    return emit(memoryFunction<uint32_t>(isLoad, registerBytes));
  case NumberType::U64:
  case NumberType::S64:
  case NumberType::F64:
    return emit(memoryFunction<uint64_t>(isLoad, registerBytes));
  default:
    unknown();
  }
}

namespace {

struct Exchange {
  template <typename T>
  static T run(T, T b) {
    return b;
  }
};
struct Increment {
  template <typename T>
  static T run(T a, T b) {
    return a >= b ? T(0) : T(a + 1);
  }
};

template <typename T, typename F>
void atomic(Warp &warp, const Operation &op) {
  const T *b = warp.lanes<T>(op.b);
  eachLane(warp, [&](uint32_t l) {
    uint8_t *at = reach(warp, op, sizeof(T), l, Access::Atomic);
    T old, value;
    std::memcpy(&old, at, sizeof(T));
    value = F::run(old, b[l]);
    std::memcpy(at, &value, sizeof(T));
    if (op.d)
      warp.lanes<T>(op.d)[l] = old;
  });
}
template <typename T>
void compareAndSwap(Warp &warp, const Operation &op) {
  const T *b = warp.lanes<T>(op.b), *c = warp.lanes<T>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint8_t *at = reach(warp, op, sizeof(T), l, Access::Atomic);
    T old;
    std::memcpy(&old, at, sizeof(T));
    if (old == b[l])
      std::memcpy(at, &c[l], sizeof(T));
    warp.lanes<T>(op.d)[l] = old;
  });
}

} // namespace

void Decoder::addAtomic(bool returns) {
  Warp::Space space = has("global")                         ? Warp::Space::Global
                      : has("shared") || has("shared::cta") ? Warp::Space::Shared
                                                            : Warp::Space::Generic;
  size_t first = returns ? 1 : 0;
  uint32_t bytes = bytesOf(type());
  op.d = returns && operand(0).name != "_" ? place(0, bytes) : 0;
  const Operand &address = operand(first);
  op.offset = address.offset;
  op.e = uint32_t(space) << kSpaceBits;
  refineGranules(kernel, space, bytes);
  uint32_t isNarrow = 0;
  op.a = addressPlace(address, isNarrow);
  op.e |= isNarrow ? kNarrowAddress : 0;
  op.b = place(first + 1, bytes);
  bool known = false;
  if (has("cas")) {
    op.c = place(first + 2, bytes);
    if (!op.d)
      op.d = reserve(bytes);
    known = withInteger(type(), [&](auto t) { emit(&compareAndSwap<decltype(t)>); });
  } else if (has("add")) {
    known = withType(type(), [&](auto t) { emit(&atomic<decltype(t), Add>); });
    if (!known && type() == NumberType::F16x2)
      emit(&atomic<Pair<Half>, ForPair<Half, Add>>), known = true;
    if (!known && type() == NumberType::BF16x2)
      emit(&atomic<Pair<BFloat>, ForPair<BFloat, Add>>), known = true;
  } else if (has("max")) {
    known = withType(type(), [&](auto t) { emit(&atomic<decltype(t), Max>); });
  } else if (has("min")) {
    known = withType(type(), [&](auto t) { emit(&atomic<decltype(t), Min>); });
  } else if (has("and")) {
    known = withInteger(type(), [&](auto t) { emit(&atomic<decltype(t), And>); });
  } else if (has("or")) {
    known = withInteger(type(), [&](auto t) { emit(&atomic<decltype(t), Or>); });
  } else if (has("xor")) {
    known = withInteger(type(), [&](auto t) { emit(&atomic<decltype(t), Xor>); });
  } else if (has("exch")) {
    known = withInteger(type(), [&](auto t) { emit(&atomic<decltype(t), Exchange>); });
  } else if (has("inc")) {
    known = withInteger(type(), [&](auto t) { emit(&atomic<decltype(t), Increment>); });
  }
  if (!known)
    unknown();
}

} // namespace emulated
