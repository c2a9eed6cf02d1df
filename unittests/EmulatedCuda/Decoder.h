// SPDX-License-Identifier: Apache-2.0
// Turns statements of one kernel into operations. One function per family of instructions; which
// family an opcode is of stands in Decoder.cpp, the families in files of their own.
#pragma once

#include "Arithmetic.h"
#include "PtxText.h"

#include <set>
#include <stdexcept>

namespace emulated {

class Decoder {
public:
  Decoder(PtxModule &module, Kernel &kernel) : module(module), kernel(kernel) {}

  void addParameter(const std::string &name, uint32_t bytes);
  void addRegisters(const std::string &type, const std::string &pattern, uint32_t count);
  /// A variable of the kernel in shared or local memory.
  void addShared(const std::string &name, uint64_t bytes, uint64_t alignment, bool isDynamic);
  void addLocal(const std::string &name, uint64_t bytes, uint64_t alignment);
  void addLabel(const std::string &name) { labels[name] = uint32_t(kernel.operations.size()); }
  void add(const Statement &statement);
  void finish();

private:
  PtxModule &module;
  Kernel &kernel;
  std::map<std::string, std::pair<uint32_t, uint32_t>> registers;   ///< place, bytes (0: predicate)
  std::map<std::string, std::pair<std::string, uint32_t>> declared; ///< "%r" -> type, count
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants;
  std::map<std::string, uint32_t> labels, parameters, sharedVariables, localVariables;
  std::vector<std::pair<size_t, std::string>> branches;
  std::set<std::string> dynamicShared;
  uint32_t top = kSpecialCount * kWordPlace;

  const Statement *statement = nullptr; ///< being added
  Operation op;

  [[noreturn]] void fail(const std::string &what) const;
  [[noreturn]] void unknown() const;
  bool has(const std::string &part) const;
  const std::string &lastPart() const { return statement->opcode.back(); }
  NumberType type() const { return typeOf(lastPart()); }
  const Operand &operand(size_t i) const;
  uint32_t reserve(uint32_t bytes);
  uint32_t constant(uint64_t bits, uint32_t bytes);
  /// Place of a register, an immediate or a special register, of `bytes` per lane.
  uint32_t place(const Operand &operand, uint32_t bytes);
  uint32_t place(size_t i, uint32_t bytes) { return place(operand(i), bytes); }
  uint32_t predicate(const std::string &name);
  /// Place of the register or symbol that an address starts from; `isNarrow`: it has 32 bits.
  uint32_t addressPlace(const Operand &address, uint32_t &isNarrow);
  uint32_t registerPlace(const std::string &name, uint32_t bytes);
  void emit(Execute execute) {
    op.execute = execute;
    kernel.operations.push_back(op);
  }

  template <typename F>
  void addUnary();
  template <typename F, int ulps>
  void addApproximate();
  template <typename F>
  void addBinary();
  template <typename F>
  void addTernary();
  template <typename F>
  void addBitwise();
  void addMultiply(bool accumulates);
  void addShift();
  void addConvert();
  void addMove();
  void addCompare();
  void addSelect();
  void addMemory(bool isLoad);
  void addAsyncCopy();
  void addMatrixProduct();
  void addLoadMatrix();
  void addAtomic(bool returns);
  void addShuffle();
  void addVote();
  void addTestFloat();
  void addActiveMask();
  void addReduceAcross();
  void addBits();
  void addBranch();
  void addConvertAddress();
  void finishShared();
  bool addByFamily();
};

} // namespace emulated
