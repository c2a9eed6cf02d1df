// SPDX-License-Identifier: Apache-2.0
// Looks at results right after they were written, while their bytes are still theirs.
#include "autopar/Runtime/NonFinite.h"

#include "autopar/Runtime/Device.h"
#include "autopar/Runtime/FloatElement.h"

#include <cmath>

namespace autopar::runtime {

using namespace artifact;

namespace {

/// Floats in a buffer.
struct Floats {
  int32_t buffer = -1;
  DataType dtype = DataType::F32;
  StridedShape shape;
};

Floats wholeOf(const Program &program, int32_t buffer) {
  const Buffer &b = program.buffers[size_t(buffer)];
  int64_t count = 1;
  for (int64_t extent : b.shape)
    count *= extent;
  return {buffer, b.dtype, {{count}, {1}}};
}

/// What an instruction writes; scratch and packed weights are no tensors.
std::vector<Floats> resultsOf(const Program &program, const Instruction &instruction) {
  std::vector<Floats> results;
  if (auto *p = std::get_if<Launch>(&instruction.payload))
    for (size_t i = p->args.size() - size_t(p->outputs); i < p->args.size(); ++i)
      results.push_back(wholeOf(program, p->args[i]));
  else if (auto *p = std::get_if<Matmul>(&instruction.payload)) {
    results.push_back({p->c, p->geometry.cType, p->geometry.c});
    if (p->aux >= 0 && p->geometry.epilogue != Epilogue::ReluAux)
      results.push_back(wholeOf(program, p->aux));
  } else if (auto *p = std::get_if<Convolution>(&instruction.payload))
    results.push_back(wholeOf(program, p->y));
  else if (auto *p = std::get_if<Attention>(&instruction.payload))
    for (size_t i = 0; i < (p->geometry.isGradient() ? 3 : 1); ++i)
      results.push_back({p->outputs[i], p->geometry.type,
                         p->geometry.operands[p->geometry.isGradient() ? 5 + i : 3]});
  else if (auto *p = std::get_if<GroupedProduct>(&instruction.payload)) {
    const GroupedProductGeometry &g = p->geometry;
    results.push_back(g.isGradient ? wholeOf(program, p->result)
                                   : Floats{p->result, g.resultType, g.rows});
  } else if (auto *p = std::get_if<Collective>(&instruction.payload))
    results.push_back(wholeOf(program, p->output));
  return results;
}

std::vector<Floats> operandsOf(const Program &program, const Instruction &instruction) {
  std::vector<Floats> operands;
  if (auto *p = std::get_if<Launch>(&instruction.payload)) {
    for (size_t i = 0; i + size_t(p->outputs) < p->args.size(); ++i)
      operands.push_back(wholeOf(program, p->args[i]));
  } else if (auto *p = std::get_if<Matmul>(&instruction.payload)) {
    operands.push_back({p->a, p->geometry.aType, p->geometry.a});
    if (!p->geometry.packedB)
      operands.push_back({p->b, p->geometry.bType, p->geometry.b});
  } else if (auto *p = std::get_if<Convolution>(&instruction.payload)) {
    operands.push_back(wholeOf(program, p->x));
  } else if (auto *p = std::get_if<Attention>(&instruction.payload)) {
    // A bias forbids by infinities; row sums are checked with what they belong to.
    for (size_t i = 0; i < 3; ++i)
      operands.push_back({p->inputs[i], p->geometry.type, p->geometry.operands[i]});
    if (p->geometry.isGradient())
      operands.push_back({p->inputs[5], p->geometry.type, p->geometry.operands[4]});
  } else if (auto *p = std::get_if<GroupedProduct>(&instruction.payload)) {
    const GroupedProductGeometry &g = p->geometry;
    operands.push_back({p->lhs, g.type, g.lhs});
    if (!p->maker)
      operands.push_back(g.isGradient ? Floats{p->rhs, g.type, g.rows} : wholeOf(program, p->rhs));
  } else if (auto *p = std::get_if<Collective>(&instruction.payload)) {
    operands.push_back(wholeOf(program, p->input));
  }
  return operands;
}

struct Found {
  bool nan = false, infinity = false;
};

void scan(const uint8_t *data, DataType dtype, const StridedShape &shape, size_t dim,
          Found &found) {
  int64_t step = shape.strides[dim] * byteSize(dtype);
  for (int64_t i = 0; i < shape.dims[dim]; ++i, data += step)
    if (dim + 1 < shape.dims.size()) {
      scan(data, dtype, shape, dim + 1, found);
    } else {
      double value = loadFloat(dtype, data);
      found.nan |= std::isnan(value);
      found.infinity |= std::isinf(value);
    }
}

Result<Found> scan(const Program &program, const Floats &floats, int32_t slot, Device &device) {
  Found found;
  if (!isFloat(floats.dtype))
    return found;
  const uint8_t *data = nullptr;
  std::vector<uint8_t> copy;
  if (device.hostAddress(floats.buffer)) {
    data = static_cast<const uint8_t *>(device.address(floats.buffer, slot));
  } else {
    const Buffer &buffer = program.buffers[size_t(floats.buffer)];
    copy.resize(size_t(buffer.bytes));
    AUTOPAR_RETURN_IF_ERROR(
        device.read(floats.buffer, slot * buffer.slotStride, copy.data(), buffer.bytes));
    data = copy.data();
  }
  scan(data, floats.dtype, floats.shape, 0, found);
  return found;
}

std::string nameOf(const Port &port) {
  const char *kind = port.role == Role::Input               ? "input "
                     : port.source.kind == SourceKind::None ? "state "
                                                            : "parameter ";
  return kind + port.name;
}

} // namespace

bool isFinite(DataType dtype, const void *value) { return std::isfinite(loadFloat(dtype, value)); }

Status NonFiniteSearch::visitBefore(const Program &program, Device &device) {
  for (const Port &port : program.ports) {
    bool enters =
        port.role == Role::Input || port.role == Role::Parameter || port.role == Role::State;
    if (!enters || port.buffer < 0)
      continue;
    auto found = scan(program, wholeOf(program, port.buffer), 0, device);
    if (!found)
      return found.status();
    NonFinitePlace place{-1, nameOf(port)};
    if (found->nan && !nan)
      nan = place;
    // A constant may well be infinite, such as a mask.
    if (found->infinity && !infinity && port.role != Role::Parameter)
      infinity = place;
  }
  return Status::ok();
}

Status NonFiniteSearch::visit(const Program &program, const Instruction &instruction, int64_t order,
                              int32_t slot, Device &device) {
  // On another queue an earlier instruction may be complete later.
  bool wantsNan = !nan || order < nan->order, wantsInfinity = !infinity || order < infinity->order;
  if (!wantsNan && !wantsInfinity)
    return Status::ok();
  NonFinitePlace place{order, "the result of " + instruction.idIn(slot)};
  for (const Floats &result : resultsOf(program, instruction)) {
    auto found = scan(program, result, slot, device);
    if (!found)
      return found.status();
    if (found->nan && wantsNan)
      nan = place;
    if (!found->infinity || !wantsInfinity)
      continue;
    bool hadOne = false;
    for (const Floats &operand : operandsOf(program, instruction)) {
      auto before = scan(program, operand, slot, device);
      if (!before)
        return before.status();
      hadOne |= before->infinity;
    }
    if (!hadOne)
      infinity = place;
  }
  return Status::ok();
}

} // namespace autopar::runtime
