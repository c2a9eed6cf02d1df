// SPDX-License-Identifier: Apache-2.0
// Conversions between types, and moves.
#include "Decoder.h"

namespace emulated {

namespace {

enum class Rounding { Exact, Nearest, Zero, Down, Up };

/// Whether the mode says anything of a conversion from A to D.
template <typename D, typename A>
constexpr bool rounds = isFloating<A> && (std::is_integral_v<D> || std::is_same_v<A, D>);

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
      if constexpr (rounds<D, A>)
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

/// The low bits of a register that is wider than what is converted.
template <typename R, typename T>
void takeLow(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const R *a = warp.lanes<R>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = T(a[l]); });
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
  auto isWiderInteger = [&](const Operand &given, NumberType type) {
    bool isInteger = withInteger(type, [](auto) {});
    return isInteger && registers.count(given.name) && registerBytes(given) > bytesOf(type);
  };
  // Bytes come out of larger registers and go into such; so may other integers come.
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
  } else if (isWiderInteger(operand(1), from)) {
    uint32_t bytes = bytesOf(from);
    op.a = place(1, registerBytes(operand(1)));
    op.d = final.a = reserve(bytes);
    emit(bytes == 4                       ? &takeLow<uint64_t, uint32_t>
         : registerBytes(operand(1)) == 4 ? &takeLow<uint32_t, uint16_t>
                                          : &takeLow<uint64_t, uint16_t>);
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
        // Instantiated only where it says anything.
        if constexpr (rounds<D, A>)
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
        else
          emit(&convert<D, A, Rounding::Exact, sat>);
      };
      // From a floating-point type to an integer it always stays within the type.
      if constexpr (isFloating<A> && std::is_integral_v<D>)
        pick(std::false_type());
      else
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

void movePredicate(Warp &warp, const Operation &op) {
  uint32_t value = warp.predicate(op.a), &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}

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

} // namespace emulated
