// SPDX-License-Identifier: Apache-2.0
// Which opcode is of which family, and where operands lie. An opcode, suffix or operand that is not
// known is an error that shows it.
#include "Decoder.h"

namespace emulated {

NumberType typeOf(const std::string &suffix) {
  static const std::map<std::string, NumberType> types = {
      {"u8", NumberType::U8},   {"b8", NumberType::U8},       {"s8", NumberType::S8},
      {"u16", NumberType::U16}, {"b16", NumberType::U16},     {"s16", NumberType::S16},
      {"u32", NumberType::U32}, {"b32", NumberType::U32},     {"s32", NumberType::S32},
      {"u64", NumberType::U64}, {"b64", NumberType::U64},     {"s64", NumberType::S64},
      {"f16", NumberType::F16}, {"bf16", NumberType::BF16},   {"f32", NumberType::F32},
      {"f64", NumberType::F64}, {"f16x2", NumberType::F16x2}, {"bf16x2", NumberType::BF16x2}};
  auto found = types.find(suffix);
  return found == types.end() ? NumberType::Unknown : found->second;
}

uint32_t bytesOf(NumberType type) {
  switch (type) {
  case NumberType::U8:
  case NumberType::S8:
    return 1;
  case NumberType::U16:
  case NumberType::S16:
  case NumberType::F16:
  case NumberType::BF16:
    return 2;
  case NumberType::U64:
  case NumberType::S64:
  case NumberType::F64:
    return 8;
  case NumberType::Unknown:
    return 0;
  default:
    return 4;
  }
}

void Decoder::fail(const std::string &what) const {
  uint32_t line = statement ? statement->line : 0;
  std::string text = line && line <= module.lines.size() ? module.lines[line - 1] : "";
  throw std::runtime_error("kernel " + kernel.name + ", line " + std::to_string(line) + ": " +
                           what + ": " + text);
}

void Decoder::unknown() const {
  std::string opcode;
  for (const std::string &part : statement->opcode)
    opcode += (opcode.empty() ? "" : ".") + part;
  fail("the emulated GPU does not know the instruction " + opcode);
}

bool Decoder::has(const std::string &part) const {
  for (const std::string &own : statement->opcode)
    if (own == part)
      return true;
  return false;
}

const Operand &Decoder::operand(size_t i) const {
  if (i >= statement->operands.size())
    fail("an operand is missing");
  return statement->operands[i];
}

uint32_t Decoder::reserve(uint32_t bytes) {
  uint32_t at = top;
  top += bytes * kLanes;
  return at;
}

uint32_t Decoder::constant(uint64_t bits, uint32_t bytes) {
  auto [found, isNew] = constants.try_emplace({bits, bytes}, 0);
  if (isNew) {
    found->second = bytes == 0 ? top : reserve(bytes);
    if (bytes == 0)
      top += 64; // a predicate
    kernel.constants.push_back({found->second, bytes, bits});
  }
  return found->second;
}

void Decoder::addParameter(const std::string &name, uint32_t bytes) {
  kernel.parameterBytes = (kernel.parameterBytes + bytes - 1) / bytes * bytes;
  parameters[name] = kernel.parameterBytes;
  kernel.parameters.push_back({kernel.parameterBytes, bytes});
  kernel.parameterBytes += bytes;
}

void Decoder::addRegisters(const std::string &typeName, const std::string &name, uint32_t count) {
  uint32_t bytes = typeName == "pred" ? 0 : std::max(2u, bytesOf(typeOf(typeName)));
  if (typeName != "pred" && typeOf(typeName) == NumberType::Unknown)
    fail("registers of type " + typeName);
  for (uint32_t i = 0; i < std::max(count, 1u); ++i) {
    std::string own = count ? name + std::to_string(i) : name;
    registers[own] = {top, bytes};
    top += bytes == 0 ? 64 : bytes * kLanes;
  }
}

void Decoder::addShared(const std::string &name, uint64_t bytes, uint64_t alignment,
                        bool isDynamic) {
  if (isDynamic) {
    dynamicShared.insert(name);
    return;
  }
  kernel.sharedBytes = uint32_t((kernel.sharedBytes + alignment - 1) / alignment * alignment);
  sharedVariables[name] = kernel.sharedBytes;
  kernel.sharedBytes += uint32_t(bytes);
}

void Decoder::addLocal(const std::string &name, uint64_t bytes, uint64_t alignment) {
  kernel.localBytes = uint32_t((kernel.localBytes + alignment - 1) / alignment * alignment);
  localVariables[name] = kernel.localBytes;
  kernel.localBytes += uint32_t(bytes);
}

uint32_t Decoder::registerPlace(const std::string &name, uint32_t bytes) {
  if (name == "_")
    return reserve(bytes ? bytes : 4);
  auto found = registers.find(name);
  if (found == registers.end())
    fail("there is no register " + name);
  if (found->second.second != bytes)
    fail("register " + name + " is of another size than the instruction");
  return found->second.first;
}

uint32_t Decoder::predicate(const std::string &name) { return registerPlace(name, 0); }

static const std::map<std::string, Special> &specials() {
  static const std::map<std::string, Special> all = {
      {"%tid.x", kTidX},         {"%tid.y", kTidY},         {"%tid.z", kTidZ},
      {"%ntid.x", kNTidX},       {"%ntid.y", kNTidY},       {"%ntid.z", kNTidZ},
      {"%ctaid.x", kCtaX},       {"%ctaid.y", kCtaY},       {"%ctaid.z", kCtaZ},
      {"%nctaid.x", kNCtaX},     {"%nctaid.y", kNCtaY},     {"%nctaid.z", kNCtaZ},
      {"%laneid", kLane},        {"%warpid", kWarp},        {"%lanemask_eq", kMaskEq},
      {"%lanemask_lt", kMaskLt}, {"%lanemask_le", kMaskLe}, {"%lanemask_gt", kMaskGt},
      {"%lanemask_ge", kMaskGe}, {"%clock", kClock},        {"%dynamic_smem_size", kDynamicShared}};
  return all;
}

uint32_t Decoder::place(const Operand &given, uint32_t bytes) {
  if (given.kind == Operand::Kind::Number)
    return constant(given.bits & (bytes == 8   ? ~uint64_t{0}
                                  : bytes == 4 ? 0xffffffffu
                                               : 0xffffu),
                    bytes);
  if (given.kind != Operand::Kind::Name)
    fail("a register or number is expected");
  if (auto special = specials().find(given.name); special != specials().end()) {
    if (bytes != 4)
      fail("a special register has 32 bits");
    return special->second * kWordPlace;
  }
  uint64_t more = uint64_t(given.offset);
  if (auto found = sharedVariables.find(given.name); found != sharedVariables.end())
    return constant(found->second + more, bytes);
  if (dynamicShared.count(given.name)) {
    uint32_t at = reserve(bytes);
    kernel.constants.push_back({at, bytes | 0x80000000u, more});
    return at;
  }
  if (auto found = localVariables.find(given.name); found != localVariables.end())
    return constant(found->second + more, bytes);
  if (auto found = module.variables.find(given.name); found != module.variables.end())
    return constant(found->second.address + more, bytes);
  return registerPlace(given.name, bytes);
}

void Decoder::finish() {
  for (auto &[index, label] : branches) {
    auto found = labels.find(label);
    if (found == labels.end())
      throw std::runtime_error("kernel " + kernel.name + ": there is no label " + label);
    kernel.operations[index].offset = found->second;
  }
  // What the end of the text runs into.
  Operation end;
  end.kind = Operation::Kind::Exit;
  kernel.operations.push_back(end);
  // Dynamic shared memory comes after the static one.
  uint32_t dynamicBegin = (kernel.sharedBytes + 15) / 16 * 16;
  for (Constant &c : kernel.constants)
    if (c.bytes & 0x80000000u) {
      c.bytes &= 0x7fffffffu;
      c.value += dynamicBegin;
    }
  kernel.sharedBytes = dynamicBegin;
  kernel.registerBytes = (top + 63) / 64 * 64;
}

// ---- Families ----------------------------------------------------------------------------------

template <typename F>
void Decoder::addUnary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  bool known = withType(type(), [&](auto t) { emit(&unary<decltype(t), F>); });
  if (!known && type() == NumberType::F16x2)
    emit(&unary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && type() == NumberType::BF16x2)
    emit(&unary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

template <typename F>
void Decoder::addBinary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  bool isSaturated = has("sat");
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    if (!isSaturated)
      emit(&binary<T, F>);
    else if constexpr (isFloating<T>)
      emit(&binary<T, Saturated<F>>);
    else
      unknown();
  });
  if (!known && !isSaturated && type() == NumberType::F16x2)
    emit(&binary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && !isSaturated && type() == NumberType::BF16x2)
    emit(&binary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

template <typename F>
void Decoder::addTernary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  op.c = place(3, bytes);
  bool isSaturated = has("sat");
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    if (!isSaturated)
      emit(&ternary<T, F>);
    else if constexpr (isFloating<T>)
      emit(&ternary<T, Saturated<F>>);
    else
      unknown();
  });
  if (!known && !isSaturated && type() == NumberType::F16x2)
    emit(&ternary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && !isSaturated && type() == NumberType::BF16x2)
    emit(&ternary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

namespace {

template <typename F>
void combinePredicates(Warp &warp, const Operation &op) {
  uint32_t value = F::run(warp.predicate(op.a), warp.predicate(op.b));
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}
void movePredicate(Warp &warp, const Operation &op) {
  uint32_t value = warp.predicate(op.a), &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}
void invertPredicate(Warp &warp, const Operation &op) {
  uint32_t value = ~warp.predicate(op.a), &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}
void nothing(Warp &, const Operation &) {}

} // namespace

template <typename F>
void Decoder::addBitwise() {
  if (lastPart() == "pred") {
    op.d = predicate(operand(0).name);
    op.a = predicate(operand(1).name);
    op.b = predicate(operand(2).name);
    return emit(&combinePredicates<F>);
  }
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  if (!withInteger(type(), [&](auto t) { emit(&binary<decltype(t), F>); }))
    unknown();
}

namespace {

template <typename Narrow, typename Result, bool accumulates>
void multiplyWide(Warp &warp, const Operation &op) {
  Result *d = warp.lanes<Result>(op.d);
  const Result *c = warp.lanes<Result>(accumulates ? op.c : op.d);
  const Narrow *a = warp.lanes<Narrow>(op.a), *b = warp.lanes<Narrow>(op.b);
  eachLane(warp, [&](uint32_t l) {
    Result product = Result(a[l]) * Result(b[l]);
    d[l] = accumulates ? Result(Bits<Result>(product) + Bits<Result>(c[l])) : product;
  });
}
struct MulHiAdd {
  template <typename T>
  static T run(T a, T b, T c) {
    return Add::run(MulHi::run(a, b), c);
  }
};

} // namespace

void Decoder::addMultiply(bool accumulates) {
  if (has("wide")) {
    NumberType own = type();
    uint32_t bytes = bytesOf(own);
    op.d = place(0, 2 * bytes);
    op.a = place(1, bytes);
    op.b = place(2, bytes);
    op.c = accumulates ? place(3, 2 * bytes) : 0;
    auto pick = [&](auto narrow, auto wide) {
      using N = decltype(narrow);
      using W = decltype(wide);
      emit(accumulates ? &multiplyWide<N, W, true> : &multiplyWide<N, W, false>);
    };
    switch (own) {
    case NumberType::S16:
      return pick(int16_t(), int32_t());
    case NumberType::U16:
      return pick(uint16_t(), uint32_t());
    case NumberType::S32:
      return pick(int32_t(), int64_t());
    case NumberType::U32:
      return pick(uint32_t(), uint64_t());
    default:
      unknown();
    }
  }
  bool isHigh = has("hi");
  if (!accumulates)
    return isHigh ? addBinary<MulHi>() : addBinary<Mul>();
  isHigh ? addTernary<MulHiAdd>() : addTernary<Fma>();
}

namespace {

template <typename T, bool isLeft>
void shift(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a);
  const uint32_t *b = warp.lanes<uint32_t>(op.b);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    if (isLeft)
      d[l] = b[l] >= width ? T(0) : T(Bits<T>(a[l]) << b[l]);
    else
      d[l] = T(a[l] >> std::min(b[l], width - 1)) &
             (std::is_signed_v<T> || b[l] < width ? T(~T(0)) : T(0));
  });
}

} // namespace

void Decoder::addShift() {
  uint32_t bytes = bytesOf(type());
  bool isLeft = statement->opcode[0] == "shl";
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, 4);
  if (!withInteger(type(), [&](auto t) {
        emit(isLeft ? &shift<decltype(t), true> : &shift<decltype(t), false>);
      }))
    unknown();
}

namespace {

enum class Rounding { Exact, Nearest, Zero, Down, Up };

template <typename D, typename A, Rounding rounding, bool saturates>
void convert(Warp &warp, const Operation &op) {
  D *d = warp.lanes<D>(op.d);
  const A *a = warp.lanes<A>(op.a);
  eachLane(warp, [&](uint32_t l) {
    if constexpr (isFloating<A> && std::is_integral_v<D>) {
      double value = double(a[l]);
      value = rounding == Rounding::Zero   ? std::trunc(value)
              : rounding == Rounding::Down ? std::floor(value)
              : rounding == Rounding::Up   ? std::ceil(value)
                                           : std::nearbyint(value);
      // The hardware stays within the type.
      if (value != value)
        d[l] = 0;
      else if (value <= double(std::numeric_limits<D>::min()))
        d[l] = std::numeric_limits<D>::min();
      else if (value >= double(std::numeric_limits<D>::max()))
        d[l] = std::numeric_limits<D>::max();
      else
        d[l] = D(value);
    } else if constexpr (std::is_integral_v<A> && std::is_integral_v<D>) {
      if (saturates && a[l] < 0 && !std::is_signed_v<D>)
        d[l] = 0;
      else
        d[l] = D(a[l]);
    } else {
      Wide<A> value = Wide<A>(a[l]);
      if constexpr (isFloating<A> && std::is_same_v<A, D>)
        value = rounding == Rounding::Nearest ? std::nearbyint(value)
                : rounding == Rounding::Zero  ? std::trunc(value)
                : rounding == Rounding::Down  ? std::floor(value)
                : rounding == Rounding::Up    ? std::ceil(value)
                                              : value;
      d[l] = Make<D>::from(value);
      if constexpr (isFloating<D>)
        if (saturates)
          d[l] =
              Make<D>::from(Wide<D>(d[l]) > 0 ? std::min(Wide<D>(d[l]), Wide<D>(1)) : Wide<D>(0));
    }
  });
}

/// One of the 8-bit types, which live in larger registers.
template <typename R, bool isSigned>
void extendByte(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const R *a = warp.lanes<R>(op.a);
  eachLane(warp, [&](uint32_t l) {
    d[l] = isSigned ? uint32_t(int32_t(int8_t(a[l]))) : uint32_t(uint8_t(a[l]));
  });
}
template <typename R, bool isSigned>
void truncateToByte(Warp &warp, const Operation &op) {
  R *d = warp.lanes<R>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = isSigned ? R(int8_t(a[l])) : R(uint8_t(a[l])); });
}

template <typename T, bool isReluOnly>
void convertTwo(Warp &warp, const Operation &op) {
  Pair<T> *d = warp.lanes<Pair<T>>(op.d);
  const float *a = warp.lanes<float>(op.a), *b = warp.lanes<float>(op.b);
  auto made = [](float v) { return Make<T>::from(isReluOnly && !(v > 0) ? 0.0f : v); };
  eachLane(warp, [&](uint32_t l) { d[l] = {made(b[l]), made(a[l])}; });
}

} // namespace

void Decoder::addConvert() {
  size_t parts = statement->opcode.size();
  if (parts < 3)
    unknown();
  NumberType from = type(), to = typeOf(statement->opcode[parts - 2]);
  if (to == NumberType::F16x2 || to == NumberType::BF16x2) {
    if (from != NumberType::F32 || !has("rn") || statement->operands.size() != 3)
      unknown();
    op.d = place(0, 4), op.a = place(1, 4), op.b = place(2, 4);
    bool relu = has("relu");
    if (to == NumberType::F16x2)
      return emit(relu ? &convertTwo<Half, true> : &convertTwo<Half, false>);
    return emit(relu ? &convertTwo<BFloat, true> : &convertTwo<BFloat, false>);
  }
  if (has("relu") || has("satfinite") || has("rz") || has("rm") || has("rp") || has("rs"))
    unknown();
  Rounding rounding = has("rni")   ? Rounding::Nearest
                      : has("rzi") ? Rounding::Zero
                      : has("rmi") ? Rounding::Down
                      : has("rpi") ? Rounding::Up
                                   : Rounding::Exact;
  bool saturates = has("sat");
  Operation final = op;
  auto registerBytes = [&](const Operand &given) -> uint32_t {
    auto found = registers.find(given.name);
    return found == registers.end() ? 4 : found->second.second;
  };
  // Bytes come out of larger registers and go into such.
  if (from == NumberType::U8 || from == NumberType::S8) {
    uint32_t bytes = registerBytes(operand(1));
    op.a = place(1, bytes);
    op.d = reserve(4);
    bool isSigned = from == NumberType::S8;
    emit(bytes == 2   ? (isSigned ? &extendByte<uint16_t, true> : &extendByte<uint16_t, false>)
         : bytes == 4 ? (isSigned ? &extendByte<uint32_t, true> : &extendByte<uint32_t, false>)
                      : (isSigned ? &extendByte<uint64_t, true> : &extendByte<uint64_t, false>));
    final.a = op.d;
    from = isSigned ? NumberType::S32 : NumberType::U32;
  } else {
    final.a = place(1, bytesOf(from));
  }
  bool toByte = to == NumberType::U8 || to == NumberType::S8;
  uint32_t target = toByte ? reserve(4) : place(0, bytesOf(to));
  final.d = target;
  bool isSignedByte = to == NumberType::S8;
  if (toByte && (saturates || from == NumberType::F16 || from == NumberType::BF16 ||
                 from == NumberType::F32 || from == NumberType::F64))
    unknown();
  if (toByte)
    to = isSignedByte ? NumberType::S32 : NumberType::U32;
  op = final;
  bool known = false;
  withType(to, [&](auto d) {
    using D = decltype(d);
    known = withType(from, [&](auto a) {
      using A = decltype(a);
      auto pick = [&](auto s) {
        constexpr bool sat = decltype(s)::value;
        switch (rounding) {
        case Rounding::Exact:
          return emit(&convert<D, A, Rounding::Exact, sat>);
        case Rounding::Nearest:
          return emit(&convert<D, A, Rounding::Nearest, sat>);
        case Rounding::Zero:
          return emit(&convert<D, A, Rounding::Zero, sat>);
        case Rounding::Down:
          return emit(&convert<D, A, Rounding::Down, sat>);
        case Rounding::Up:
          return emit(&convert<D, A, Rounding::Up, sat>);
        }
      };
      saturates ? pick(std::true_type()) : pick(std::false_type());
    });
  });
  if (!known)
    unknown();
  if (toByte) {
    uint32_t bytes = registerBytes(operand(0));
    op.a = target;
    op.d = place(0, bytes);
    emit(bytes == 2
             ? (isSignedByte ? &truncateToByte<uint16_t, true> : &truncateToByte<uint16_t, false>)
         : bytes == 4
             ? (isSignedByte ? &truncateToByte<uint32_t, true> : &truncateToByte<uint32_t, false>)
             : (isSignedByte ? &truncateToByte<uint64_t, true> : &truncateToByte<uint64_t, false>));
  }
}

namespace {

/// Elements of a vector, first in the lowest bits, from and to one register.
template <typename W, typename E>
void pack(Warp &warp, const Operation &op) {
  W *d = warp.lanes<W>(op.d);
  for (size_t i = 0; i < op.vector.size(); ++i) {
    const E *part = warp.lanes<E>(op.vector[i]);
    eachLane(warp,
             [&](uint32_t l) { d[l] = W((i ? d[l] : 0) | W(part[l]) << (8 * sizeof(E) * i)); });
  }
}
template <typename W, typename E>
void unpack(Warp &warp, const Operation &op) {
  const W *a = warp.lanes<W>(op.a);
  for (size_t i = 0; i < op.vector.size(); ++i) {
    E *part = warp.lanes<E>(op.vector[i]);
    eachLane(warp, [&](uint32_t l) { part[l] = E(a[l] >> (8 * sizeof(E) * i)); });
  }
}

} // namespace

void Decoder::addMove() {
  if (lastPart() == "pred") {
    op.d = predicate(operand(0).name);
    op.a = operand(1).kind == Operand::Kind::Number ? constant(operand(1).bits ? ~0u : 0, 0)
                                                    : predicate(operand(1).name);
    return emit(&movePredicate);
  }
  uint32_t bytes = bytesOf(type());
  bool packs = operand(1).kind == Operand::Kind::Vector,
       unpacks = operand(0).kind == Operand::Kind::Vector;
  if (packs || unpacks) {
    const std::vector<Operand> &elements = packs ? operand(1).elements : operand(0).elements;
    uint32_t each = bytes / uint32_t(elements.size());
    (packs ? op.d : op.a) = place(packs ? 0 : 1, bytes);
    // Registers may be written that are read: through places of their own.
    for (const Operand &element : elements)
      op.vector.push_back(place(element, each));
    if (packs) {
      uint32_t target = op.d;
      op.d = reserve(bytes);
      emit(bytes == 4 && each == 2   ? &pack<uint32_t, uint16_t>
           : bytes == 8 && each == 4 ? &pack<uint64_t, uint32_t>
           : bytes == 8 && each == 2 ? &pack<uint64_t, uint16_t>
                                     : (unknown(), nullptr));
      op.a = op.d;
      op.d = target;
      op.vector.clear();
      return emit(bytes == 4 ? &unary<uint32_t, Move> : &unary<uint64_t, Move>);
    }
    return emit(bytes == 4 && each == 2   ? &unpack<uint32_t, uint16_t>
                : bytes == 8 && each == 4 ? &unpack<uint64_t, uint32_t>
                : bytes == 8 && each == 2 ? &unpack<uint64_t, uint16_t>
                                          : (unknown(), nullptr));
  }
  if (type() == NumberType::Unknown || type() == NumberType::U8 || type() == NumberType::S8)
    unknown();
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  emit(bytes == 2   ? &unary<uint16_t, Move>
       : bytes == 4 ? &unary<uint32_t, Move>
                    : &unary<uint64_t, Move>);
}

namespace {

#define EMULATED_COMPARE(Name, expression)                                                         \
  struct Name {                                                                                    \
    template <typename T>                                                                          \
    static bool run(T x, T y) {                                                                    \
      Wide<T> a = Wide<T>(x), b = Wide<T>(y);                                                      \
      return expression;                                                                           \
    }                                                                                              \
  };
EMULATED_COMPARE(Equal, a == b)
EMULATED_COMPARE(NotEqual, a == a && b == b && a != b)
EMULATED_COMPARE(Less, a < b)
EMULATED_COMPARE(LessEqual, a <= b)
EMULATED_COMPARE(Greater, a > b)
EMULATED_COMPARE(GreaterEqual, a >= b)
EMULATED_COMPARE(EqualOrNan, !(a == a && b == b) || a == b)
EMULATED_COMPARE(NotEqualOrNan, a != b)
EMULATED_COMPARE(LessOrNan, !(a >= b))
EMULATED_COMPARE(LessEqualOrNan, !(a > b))
EMULATED_COMPARE(GreaterOrNan, !(a <= b))
EMULATED_COMPARE(GreaterEqualOrNan, !(a < b))
EMULATED_COMPARE(BothNumbers, a == a && b == b)
EMULATED_COMPARE(AnyNan, a != a || b != b)

/// c: a predicate to combine with, by e: 0 none, 1 and, 2 or, 3 xor; vector[0]: where the opposite
/// goes.
template <typename T, typename F>
void compare(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLanes; ++l)
    bits |= uint32_t(F::run(a[l], b[l])) << l;
  auto combined = [&](uint32_t value) {
    uint32_t c = op.e ? warp.predicate(op.c) ^ uint32_t(op.offset) : 0;
    return op.e == 1 ? value & c : op.e == 2 ? value | c : op.e == 3 ? value ^ c : value;
  };
  auto put = [&](uint32_t place, uint32_t value) {
    uint32_t &d = warp.predicate(place);
    d = (d & ~warp.active) | (value & warp.active);
  };
  uint32_t first = combined(bits), second = combined(~bits);
  put(op.d, first);
  if (!op.vector.empty())
    put(op.vector[0], second);
}

} // namespace

void Decoder::addCompare() {
  uint32_t bytes = bytesOf(type());
  const std::string &relation =
      statement->opcode.size() > 1 ? statement->opcode[1] : statement->opcode[0];
  op.d = operand(0).name == "_" ? constant(0, 0) : predicate(operand(0).name);
  if (!operand(0).second.empty())
    op.vector.push_back(predicate(operand(0).second));
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  if (statement->operands.size() == 4) {
    op.e = has("and") ? 1 : has("or") ? 2 : has("xor") ? 3 : 0;
    op.c = predicate(operand(3).name);
    op.offset = operand(3).isNegated ? 0xffffffff : 0;
  }
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    const bool f = isFloating<T>;
    Execute found = relation == "eq"   ? &compare<T, Equal>
                    : relation == "ne" ? (f ? &compare<T, NotEqual> : &compare<T, NotEqualOrNan>)
                    : relation == "lt" || relation == "lo" ? &compare<T, Less>
                    : relation == "le" || relation == "ls" ? &compare<T, LessEqual>
                    : relation == "gt" || relation == "hi" ? &compare<T, Greater>
                    : relation == "ge" || relation == "hs" ? &compare<T, GreaterEqual>
                    : relation == "equ"                    ? &compare<T, EqualOrNan>
                    : relation == "neu"                    ? &compare<T, NotEqualOrNan>
                    : relation == "ltu"                    ? &compare<T, LessOrNan>
                    : relation == "leu"                    ? &compare<T, LessEqualOrNan>
                    : relation == "gtu"                    ? &compare<T, GreaterOrNan>
                    : relation == "geu"                    ? &compare<T, GreaterEqualOrNan>
                    : relation == "num"                    ? &compare<T, BothNumbers>
                    : relation == "nan"                    ? &compare<T, AnyNan>
                                                           : nullptr;
    if (!found)
      unknown();
    emit(found);
  });
  if (!known)
    unknown();
}

namespace {

template <typename T>
void select(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t chosen = warp.predicate(op.c);
  eachLane(warp, [&](uint32_t l) { d[l] = chosen >> l & 1 ? a[l] : b[l]; });
}

enum class FloatClass { Nan, Infinite, Finite, Number };
template <typename T, FloatClass kind>
void testFloat(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    bool is = kind == FloatClass::Nan        ? std::isnan(a[l])
              : kind == FloatClass::Infinite ? std::isinf(a[l])
              : kind == FloatClass::Finite   ? std::isfinite(a[l])
                                             : !std::isnan(a[l]);
    bits |= uint32_t(is) << l;
  }
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (bits & warp.active);
}

} // namespace

void Decoder::addSelect() {
  uint32_t bytes = bytesOf(type());
  if (bytes < 2)
    unknown();
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  op.c = predicate(operand(3).name);
  emit(bytes == 2 ? &select<uint16_t> : bytes == 4 ? &select<uint32_t> : &select<uint64_t>);
}

namespace {

constexpr uint32_t kNarrowAddress = 1;
Warp::Space spaceOf(const Operation &op) { return Warp::Space(op.e >> 1); }

inline uint8_t *reach(Warp &warp, const Operation &op, uint32_t bytes, uint32_t lane) {
  uint64_t address = (op.e & kNarrowAddress ? warp.lanes<uint32_t>(op.a)[lane]
                                            : warp.lanes<uint64_t>(op.a)[lane]) +
                     uint64_t(op.offset);
  Block &block = *warp.block;
  // Mostly the same tensor as before.
  if (address >= block.begin && address + bytes <= block.end && address % bytes == 0 &&
      spaceOf(op) <= Warp::Space::Global)
    return block.host + (address - block.begin);
  return warp.reach(spaceOf(op), address, bytes, lane, op);
}

template <typename M, typename R>
void load(Warp &warp, const Operation &op) {
  uint32_t bytes = uint32_t(op.vector.size() * sizeof(M));
  if (op.vector.size() == 1) {
    R *d = warp.lanes<R>(op.vector[0]);
    return eachLane(warp, [&](uint32_t l) {
      M value;
      std::memcpy(&value, reach(warp, op, sizeof(M), l), sizeof(M));
      d[l] = R(value);
    });
  }
  eachLane(warp, [&](uint32_t l) {
    const uint8_t *from = reach(warp, op, bytes, l);
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
    uint8_t *to = reach(warp, op, bytes, l);
    for (size_t i = 0; i < op.vector.size(); ++i) {
      M value = M(warp.lanes<R>(op.vector[i])[l]);
      std::memcpy(to + i * sizeof(M), &value, sizeof(M));
    }
  });
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
  op.e = uint32_t(space) << 1;
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
    uint8_t *at = reach(warp, op, sizeof(T), l);
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
    uint8_t *at = reach(warp, op, sizeof(T), l);
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
  op.e = uint32_t(space) << 1;
  auto reg = registers.find(address.name);
  if (reg != registers.end() && reg->second.second == 4) {
    op.e |= kNarrowAddress;
    op.a = reg->second.first;
  } else {
    Operand base;
    base.name = address.name;
    op.a = place(base, 8);
  }
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

namespace {

enum class ShuffleKind { Up, Down, Butterfly, Index };

template <ShuffleKind kind>
void shuffle(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d), result[kLanes], inside = 0;
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment, from = l;
    bool isInside = false;
    if (kind == ShuffleKind::Up) {
      isInside = int32_t(l) - int32_t(by) >= int32_t(most);
      from = l - by;
    } else if (kind == ShuffleKind::Down) {
      from = l + by;
      isInside = from <= most;
    } else if (kind == ShuffleKind::Butterfly) {
      from = l ^ by;
      isInside = from <= most;
    } else {
      from = least | (by & ~segment);
      isInside = from <= most;
    }
    if (!isInside)
      from = l;
    // What a lane that takes no part would give is undefined.
    result[l] = warp.active >> from & 1 ? a[from] : 0xdeadbeef;
    inside |= uint32_t(isInside) << l;
  });
  eachLane(warp, [&](uint32_t l) { d[l] = result[l]; });
  if (!op.vector.empty()) {
    uint32_t &p = warp.predicate(op.vector[0]);
    p = (p & ~warp.active) | inside;
  }
}

void ballot(Warp &warp, const Operation &op) {
  uint32_t bits = (warp.predicate(op.a) ^ uint32_t(op.offset)) & warp.active;
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = bits; });
}
enum class Vote { All, Any, Uniform };
template <Vote kind>
void vote(Warp &warp, const Operation &op) {
  uint32_t bits = (warp.predicate(op.a) ^ uint32_t(op.offset)) & warp.active;
  bool result = kind == Vote::All   ? bits == warp.active
                : kind == Vote::Any ? bits != 0
                                    : bits == 0 || bits == warp.active;
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (result ? warp.active : 0);
}
void activeMask(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = warp.active; });
}
template <typename T, typename F>
void reduceAcross(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a);
  T sum = a[__builtin_ctz(warp.active)];
  for (uint32_t rest = warp.active & (warp.active - 1); rest; rest &= rest - 1)
    sum = F::template run<T>(sum, a[__builtin_ctz(rest)]);
  T *d = warp.lanes<T>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = sum; });
}

} // namespace

// `e`: which lanes take part.
void Decoder::addShuffle() {
  if (!has("sync") || lastPart() != "b32")
    unknown();
  op.kind = Operation::Kind::Together;
  op.d = place(0, 4);
  if (!operand(0).second.empty())
    op.vector.push_back(predicate(operand(0).second));
  op.a = place(1, 4);
  op.b = place(2, 4);
  op.c = place(3, 4);
  op.e = place(4, 4);
  emit(has("up")     ? &shuffle<ShuffleKind::Up>
       : has("down") ? &shuffle<ShuffleKind::Down>
       : has("bfly") ? &shuffle<ShuffleKind::Butterfly>
       : has("idx")  ? &shuffle<ShuffleKind::Index>
                     : (unknown(), nullptr));
}

void Decoder::addVote() {
  if (!has("sync"))
    unknown();
  op.kind = Operation::Kind::Together;
  op.a = predicate(operand(1).name);
  op.offset = operand(1).isNegated ? 0xffffffff : 0;
  op.e = place(2, 4);
  if (has("ballot")) {
    op.d = place(0, 4);
    return emit(&ballot);
  }
  op.d = predicate(operand(0).name);
  emit(has("all")   ? &vote<Vote::All>
       : has("any") ? &vote<Vote::Any>
       : has("uni") ? &vote<Vote::Uniform>
                    : (unknown(), nullptr));
}

namespace {

template <typename T>
void populationCount(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const T *a = warp.lanes<T>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = uint32_t(__builtin_popcountll(a[l])); });
}
template <typename T>
void leadingZeros(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const T *a = warp.lanes<T>(op.a);
  eachLane(warp, [&](uint32_t l) {
    d[l] = a[l] ? uint32_t(__builtin_clzll(a[l])) - uint32_t(64 - 8 * sizeof(T))
                : uint32_t(8 * sizeof(T));
  });
}
void lookUpBits(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i)
      if (op.offset >> i & 1)
        result |= (i & 4 ? a[l] : ~a[l]) & (i & 2 ? b[l] : ~b[l]) & (i & 1 ? c[l] : ~c[l]);
    d[l] = result;
  });
}
void permuteBytes(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint64_t both = uint64_t(b[l]) << 32 | a[l];
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t selector = c[l] >> (4 * i) & 15;
      uint8_t byte = uint8_t(both >> (8 * (selector & 7)));
      if (selector & 8)
        byte = byte & 0x80 ? 0xff : 0;
      result |= uint32_t(byte) << (8 * i);
    }
    d[l] = result;
  });
}
template <typename T>
void extractBits(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a);
  const uint32_t *b = warp.lanes<uint32_t>(op.b), *c = warp.lanes<uint32_t>(op.c);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    uint32_t begin = b[l] & 255, count = c[l] & 255;
    using U = Bits<T>;
    U value = begin >= width ? 0 : U(a[l]) >> begin;
    if (count < width)
      value &= (U(1) << count) - 1;
    if (std::is_signed_v<T> && count > 0) {
      uint32_t last = std::min(begin + count - 1, width - 1);
      if (U(a[l]) >> last & 1) {
        uint32_t have = std::min(count, begin >= width ? 0u : width - begin);
        if (have < width)
          value |= ~((U(1) << have) - 1);
      }
    }
    d[l] = T(value);
  });
}
template <typename T>
void insertBits(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  const uint32_t *c = warp.lanes<uint32_t>(op.c), *e = warp.lanes<uint32_t>(op.e);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    uint32_t begin = c[l] & 255, count = e[l] & 255;
    T mask = begin >= width ? T(0) : T((count >= width ? ~T(0) : T((T(1) << count) - 1)) << begin);
    d[l] = (b[l] & ~mask) | (begin >= width ? T(0) : T(a[l] << begin) & mask);
  });
}
template <bool isLeft, bool wraps>
void funnelShift(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t by = wraps ? c[l] & 31 : std::min(c[l], 32u);
    uint64_t both = uint64_t(b[l]) << 32 | a[l];
    d[l] = isLeft ? uint32_t(both << by >> 32) : uint32_t(both >> by);
  });
}

} // namespace

void Decoder::addBits() {
  const std::string &name = statement->opcode[0];
  uint32_t bytes = bytesOf(type());
  if (name == "popc" || name == "clz") {
    op.d = place(0, 4);
    op.a = place(1, bytes);
    return emit(name == "popc"
                    ? (bytes == 4 ? &populationCount<uint32_t> : &populationCount<uint64_t>)
                    : (bytes == 4 ? &leadingZeros<uint32_t> : &leadingZeros<uint64_t>));
  }
  if (name == "bfe") {
    op.d = place(0, bytes), op.a = place(1, bytes), op.b = place(2, 4), op.c = place(3, 4);
    if (!withInteger(type(), [&](auto t) { emit(&extractBits<decltype(t)>); }))
      unknown();
    return;
  }
  if (name == "bfi") {
    op.d = place(0, bytes), op.a = place(1, bytes), op.b = place(2, bytes), op.c = place(3, 4),
    op.e = place(4, 4);
    return emit(bytes == 4 ? &insertBits<uint32_t> : &insertBits<uint64_t>);
  }
  op.d = place(0, 4), op.a = place(1, 4), op.b = place(2, 4), op.c = place(3, 4);
  if (name == "lop3") {
    op.offset = int64_t(operand(4).bits);
    return emit(&lookUpBits);
  }
  if (name == "prmt" && lastPart() == "b32" && statement->opcode.size() == 2)
    return emit(&permuteBytes);
  if (name == "shf")
    return emit(has("l") ? (has("wrap") ? &funnelShift<true, true> : &funnelShift<true, false>)
                         : (has("wrap") ? &funnelShift<false, true> : &funnelShift<false, false>));
  unknown();
}

void Decoder::addBranch() {
  op.kind = Operation::Kind::Branch;
  branches.push_back({kernel.operations.size(), operand(0).name});
  kernel.operations.push_back(op);
}

namespace {

/// Generic addresses of shared and local memory are those of the space, far away. Adds e, or takes
/// it off.
void moveWindow(Warp &warp, const Operation &op) {
  uint64_t *d = warp.lanes<uint64_t>(op.d);
  const uint64_t *a = warp.lanes<uint64_t>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = a[l] + uint64_t(op.offset); });
}

} // namespace

void Decoder::addConvertAddress() {
  op.d = place(0, 8);
  op.a = place(1, 8);
  uint64_t window = has("shared") || has("shared::cta") ? kSharedWindow
                    : has("local")                      ? kLocalWindow
                                                        : 0;
  if (!window && !has("global") && !has("const") && !has("param"))
    unknown();
  op.offset = int64_t(has("to") ? 0 - window : window);
  emit(&moveWindow);
}

bool Decoder::addByFamily() {
  const std::string &name = statement->opcode[0];
  using Member = void (Decoder::*)();
  static const std::map<std::string, Member> families = {
      {"add", &Decoder::addBinary<Add>},  {"sub", &Decoder::addBinary<Sub>},
      {"div", &Decoder::addBinary<Div>},  {"rem", &Decoder::addBinary<Rem>},
      {"neg", &Decoder::addUnary<Neg>},   {"abs", &Decoder::addUnary<Abs>},
      {"sqrt", &Decoder::addUnary<Sqrt>}, {"rsqrt", &Decoder::addUnary<Rsqrt>},
      {"rcp", &Decoder::addUnary<Rcp>},   {"ex2", &Decoder::addUnary<Ex2>},
      {"lg2", &Decoder::addUnary<Lg2>},   {"sin", &Decoder::addUnary<Sin>},
      {"cos", &Decoder::addUnary<Cos>},   {"tanh", &Decoder::addUnary<Tanh>},
      {"fma", &Decoder::addTernary<Fma>}, {"copysign", &Decoder::addBinary<CopySign>},
      {"and", &Decoder::addBitwise<And>}, {"or", &Decoder::addBitwise<Or>},
      {"xor", &Decoder::addBitwise<Xor>}, {"shl", &Decoder::addShift},
      {"shr", &Decoder::addShift},        {"cvt", &Decoder::addConvert},
      {"mov", &Decoder::addMove},         {"setp", &Decoder::addCompare},
      {"selp", &Decoder::addSelect},      {"shfl", &Decoder::addShuffle},
      {"vote", &Decoder::addVote},        {"popc", &Decoder::addBits},
      {"clz", &Decoder::addBits},         {"lop3", &Decoder::addBits},
      {"prmt", &Decoder::addBits},        {"bfe", &Decoder::addBits},
      {"bfi", &Decoder::addBits},         {"shf", &Decoder::addBits},
      {"bra", &Decoder::addBranch},       {"cvta", &Decoder::addConvertAddress}};
  auto found = families.find(name);
  if (found == families.end())
    return false;
  (this->*found->second)();
  return true;
}

void Decoder::add(const Statement &given) {
  statement = &given;
  op = Operation();
  op.line = given.line;
  if (!given.guard.empty()) {
    op.isGuarded = true;
    op.isNegated = given.isNegated;
    op.guard = predicate(given.guard);
  }
  const std::string &name = given.opcode[0];
  // Carries and the like are not known.
  if (has("cc") || name == "addc" || name == "subc")
    unknown();
  if (addByFamily())
    return;
  if (name == "mul" || name == "mad")
    return addMultiply(name == "mad");
  if (name == "min")
    return has("NaN") ? addBinary<MinNan>() : addBinary<Min>();
  if (name == "max")
    return has("NaN") ? addBinary<MaxNan>() : addBinary<Max>();
  if (name == "ld" || name == "ldu" || name == "st")
    return addMemory(name != "st");
  if (name == "atom" || name == "red")
    return addAtomic(name == "atom");
  if (name == "not" && lastPart() == "pred") {
    op.d = predicate(operand(0).name);
    op.a = predicate(operand(1).name);
    return emit(&invertPredicate);
  }
  if (name == "not" || name == "cnot" || name == "brev") {
    uint32_t bytes = bytesOf(type());
    op.d = place(0, bytes), op.a = place(1, bytes);
    bool known = withInteger(type(), [&](auto t) {
      using T = decltype(t);
      emit(name == "not"    ? &unary<T, Not>
           : name == "cnot" ? &unary<T, CNot>
                            : &unary<Bits<T>, BitReverse>);
    });
    if (!known)
      unknown();
    return;
  }
  if (name == "testp") {
    bool isDouble = type() == NumberType::F64;
    op.d = predicate(operand(0).name);
    op.a = place(1, isDouble ? 8 : 4);
    auto pick = [&](auto t) {
      using T = decltype(t);
      emit(has("notanumber") ? &testFloat<T, FloatClass::Nan>
           : has("infinite") ? &testFloat<T, FloatClass::Infinite>
           : has("finite")   ? &testFloat<T, FloatClass::Finite>
           : has("number")   ? &testFloat<T, FloatClass::Number>
                             : (unknown(), nullptr));
    };
    return isDouble ? pick(double()) : pick(float());
  }
  if (name == "activemask") {
    op.d = place(0, 4);
    return emit(&activeMask);
  }
  if (name == "redux") {
    op.kind = Operation::Kind::Together;
    op.d = place(0, 4), op.a = place(1, 4), op.e = place(2, 4);
    bool isSigned = type() == NumberType::S32;
    return emit(
        has("add")   ? &reduceAcross<uint32_t, Add>
        : has("and") ? &reduceAcross<uint32_t, And>
        : has("or")  ? &reduceAcross<uint32_t, Or>
        : has("xor") ? &reduceAcross<uint32_t, Xor>
        : has("min") ? (isSigned ? &reduceAcross<int32_t, Min> : &reduceAcross<uint32_t, Min>)
        : has("max") ? (isSigned ? &reduceAcross<int32_t, Max> : &reduceAcross<uint32_t, Max>)
                     : (unknown(), nullptr));
  }
  if (name == "ret" || name == "exit") {
    op.kind = Operation::Kind::Exit;
    kernel.operations.push_back(op);
    return;
  }
  if (name == "trap") {
    op.kind = Operation::Kind::Trap;
    kernel.operations.push_back(op);
    return;
  }
  if ((name == "bar" || name == "barrier") && has("warp")) {
    op.kind = Operation::Kind::Together;
    op.e = place(0, 4);
    return emit(&nothing);
  }
  if ((name == "bar" || name == "barrier") && has("sync")) {
    op.kind = Operation::Kind::Barrier;
    op.offset = given.operands.size() > 1 ? int64_t(operand(1).bits) : 0;
    kernel.operations.push_back(op);
    return;
  }
  // Every access is in order here.
  if (name == "membar" || name == "fence" || name == "prefetch" || name == "prefetchu")
    return emit(&nothing);
  unknown();
}

} // namespace emulated
