// SPDX-License-Identifier: Apache-2.0
// Which opcode is of which family, and where operands lie. An opcode, suffix or operand that is not
// known is an error that shows it.
#include "DecodeLanes.h"

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

/// Of a kernel, before PTX 8.1.
constexpr uint32_t kMostParameterBytes = 4352;

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
  if (kernel.parameterBytes > kMostParameterBytes)
    fail("parameters of more than " + std::to_string(kMostParameterBytes) +
         " bytes, which PTX has from 8.1 on");
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
  kernel.shared.push_back({sharedVariables[name], kernel.sharedBytes});
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

uint32_t Decoder::addressPlace(const Operand &address, uint32_t &isNarrow) {
  auto found = registers.find(address.name);
  isNarrow = found != registers.end() && found->second.second == 4;
  Operand base;
  base.name = address.name;
  return isNarrow ? found->second.first : place(base, 8);
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
  finishShared();
  kernel.registerBytes = (top + 63) / 64 * 64;
}

/// Dynamic shared memory comes after the static one.
void Decoder::finishShared() {
  constexpr uint32_t most = 48 * 1024; // of static variables, as ptxas has it
  if (kernel.sharedBytes > most)
    throw std::runtime_error("kernel " + kernel.name + " uses too much shared data (" +
                             std::to_string(kernel.sharedBytes) + " bytes, " +
                             std::to_string(most) + " max)");
  if (dynamicShared.empty())
    return;
  uint32_t dynamicBegin = (kernel.sharedBytes + 15) / 16 * 16;
  for (Constant &c : kernel.constants)
    if (c.bytes & 0x80000000u) {
      c.bytes &= 0x7fffffffu;
      c.value += dynamicBegin;
    }
  kernel.sharedBytes = dynamicBegin;
  kernel.shared.push_back({dynamicBegin, ~0u});
}

namespace {

void invertPredicate(Warp &warp, const Operation &op) {
  uint32_t value = ~warp.predicate(op.a), &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}
void nothing(Warp &, const Operation &) {}
/// Orders the memory of all lanes; what some of them alone order is not kept.
void orderWarp(Warp &warp, const Operation &) {
  if (warp.active == warp.launched)
    warp.block->hazards->orderWarp(warp.index);
}

} // namespace

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
      {"add", &Decoder::addBinary<Add>},    {"sub", &Decoder::addBinary<Sub>},
      {"div", &Decoder::addBinary<Div>},    {"rem", &Decoder::addBinary<Rem>},
      {"neg", &Decoder::addUnary<Neg>},     {"abs", &Decoder::addUnary<Abs>},
      {"sqrt", &Decoder::addUnary<Sqrt>},   {"rsqrt", &Decoder::addUnary<Rsqrt>},
      {"lg2", &Decoder::addUnary<Lg2>},     {"sin", &Decoder::addUnary<Sin>},
      {"cos", &Decoder::addUnary<Cos>},     {"tanh", &Decoder::addUnary<Tanh>},
      {"fma", &Decoder::addTernary<Fma>},   {"copysign", &Decoder::addBinary<CopySign>},
      {"and", &Decoder::addBitwise<And>},   {"or", &Decoder::addBitwise<Or>},
      {"xor", &Decoder::addBitwise<Xor>},   {"shl", &Decoder::addShift},
      {"shr", &Decoder::addShift},          {"cvt", &Decoder::addConvert},
      {"mov", &Decoder::addMove},           {"setp", &Decoder::addCompare},
      {"selp", &Decoder::addSelect},        {"shfl", &Decoder::addShuffle},
      {"vote", &Decoder::addVote},          {"popc", &Decoder::addBits},
      {"clz", &Decoder::addBits},           {"lop3", &Decoder::addBits},
      {"prmt", &Decoder::addBits},          {"bfe", &Decoder::addBits},
      {"bfi", &Decoder::addBits},           {"shf", &Decoder::addBits},
      {"testp", &Decoder::addTestFloat},    {"activemask", &Decoder::addActiveMask},
      {"redux", &Decoder::addReduceAcross}, {"bra", &Decoder::addBranch},
      {"mma", &Decoder::addMatrixProduct},  {"ldmatrix", &Decoder::addLoadMatrix},
      {"cp", &Decoder::addAsyncCopy},       {"cvta", &Decoder::addConvertAddress}};
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
  if (name == "rcp")
    return addApproximate<Rcp, 1>();
  if (name == "ex2")
    return addApproximate<Ex2, 2>();
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
    return emit(&orderWarp);
  }
  if ((name == "bar" || name == "barrier") && has("sync")) {
    op.kind = Operation::Kind::Barrier;
    if (operand(0).kind != Operand::Kind::Number || operand(0).bits != 0 ||
        given.operands.size() > 1)
      fail("the emulated GPU knows barrier 0 of all threads only");
    kernel.operations.push_back(op);
    return;
  }
  // Every access is in order here.
  if (name == "membar" || name == "fence" || name == "prefetch" || name == "prefetchu")
    return emit(&nothing);
  unknown();
}

} // namespace emulated
