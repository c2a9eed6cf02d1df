// SPDX-License-Identifier: Apache-2.0
// Small matrices that the lanes of a warp hold together: their product, and how they come from
// shared memory. Which lane has which elements is what the PTX ISA says of mma.m16n8k16 and
// ldmatrix.
#include "Decoder.h"

namespace emulated {

namespace {

constexpr uint32_t kRows = 16, kColumns = 8, kTerms = 16, kSmall = 8;

template <typename T>
float half(uint32_t word, uint32_t which) {
  return float(double(T{uint16_t(word >> 16 * which)}));
}

/// Places in op.vector: four of the result, four of the left side, two of the right, four that are
/// added.
template <typename T>
void multiplyMatrices(Warp &warp, const Operation &op) {
  float left[kRows][kTerms], right[kTerms][kColumns], sums[4][kLanes];
  auto word = [&](size_t i, uint32_t l) { return warp.lanes<uint32_t>(op.vector[i])[l]; };
  for (uint32_t l = 0; l < kLanes; ++l)
    for (uint32_t which = 0; which < 2; ++which) {
      uint32_t group = l / 4, pair = l % 4 * 2 + which;
      for (uint32_t i = 0; i < 4; ++i)
        left[group + i % 2 * 8][pair + i / 2 * 8] = half<T>(word(4 + i, l), which);
      for (uint32_t i = 0; i < 2; ++i)
        right[pair + i * 8][group] = half<T>(word(8 + i, l), which);
    }
  for (uint32_t l = 0; l < kLanes; ++l)
    for (uint32_t i = 0; i < 4; ++i) {
      float sum = warp.lanes<float>(op.vector[10 + i])[l];
      for (uint32_t term = 0; term < kTerms; ++term)
        sum += left[l / 4 + i / 2 * 8][term] * right[term][l % 4 * 2 + i % 2];
      sums[i][l] = sum;
    }
  for (uint32_t i = 0; i < 4; ++i)
    std::memcpy(warp.lanes<float>(op.vector[i]), sums[i], sizeof sums[i]);
}

/// Lane l has the address of line l % 8 of matrix l / 8; op.b: whether lanes get columns of it.
void loadMatrices(Warp &warp, const Operation &op) {
  uint16_t lines[kLanes][kSmall] = {};
  uint32_t matrices = uint32_t(op.vector.size());
  for (uint32_t l = 0; l < kSmall * matrices; ++l) {
    uint64_t address = (op.c ? warp.lanes<uint32_t>(op.a)[l] : warp.lanes<uint64_t>(op.a)[l]) +
                       uint64_t(op.offset);
    std::memcpy(
        lines[l],
        warp.reach(Warp::Space::Shared, address, sizeof lines[l], l, op, Access::Load, nullptr),
        sizeof lines[l]);
  }
  for (uint32_t i = 0; i < matrices; ++i)
    for (uint32_t l = 0; l < kLanes; ++l) {
      const auto *matrix = lines + i * kSmall;
      uint32_t line = l / 4, pair = l % 4 * 2;
      uint16_t low = op.b ? matrix[pair][line] : matrix[line][pair],
               high = op.b ? matrix[pair + 1][line] : matrix[line][pair + 1];
      warp.lanes<uint32_t>(op.vector[i])[l] = uint32_t(high) << 16 | low;
    }
}

} // namespace

void Decoder::addMatrixProduct() {
  auto is = [&](const char *type) {
    return statement->opcode == std::vector<std::string>{"mma", "sync", "aligned", "m16n8k16",
                                                         "row", "col",  "f32",     type,
                                                         type,  "f32"};
  };
  bool isHalf = is("f16");
  if (!isHalf && !is("bf16"))
    unknown();
  op.kind = Operation::Kind::Together;
  op.e = constant(~0u, 4);
  for (size_t i = 0; i < 4; ++i)
    for (const Operand &element : operand(i).elements)
      op.vector.push_back(place(element, 4));
  if (op.vector.size() != 14)
    fail("a product of small matrices has 4, 4, 2 and 4 registers");
  emit(isHalf ? &multiplyMatrices<Half> : &multiplyMatrices<BFloat>);
}

void Decoder::addLoadMatrix() {
  if (!has("sync") || !has("aligned") || !has("m8n8") || lastPart() != "b16" ||
      !(has("shared") || has("shared::cta")))
    unknown();
  op.kind = Operation::Kind::Together;
  op.e = constant(~0u, 4);
  op.b = has("trans");
  for (const Operand &element : operand(0).elements)
    op.vector.push_back(place(element, 4));
  size_t matrices = has("x4") ? 4 : has("x2") ? 2 : 1;
  if (op.vector.size() != matrices)
    fail("a register is needed for each matrix");
  const Operand &address = operand(1);
  op.offset = address.offset;
  op.a = addressPlace(address, op.c);
  emit(&loadMatrices);
}

} // namespace emulated
