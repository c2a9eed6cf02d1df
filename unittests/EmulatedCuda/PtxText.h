// SPDX-License-Identifier: Apache-2.0
// PTX text as statements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emulated {

struct Token {
  std::string text;
  uint32_t line = 0;
};

/// Without comments; throws std::runtime_error.
std::vector<Token> tokenizePtx(std::string_view text);

/// What stands behind an opcode.
struct Operand {
  enum class Kind { Name, Number, Address, Vector } kind = Kind::Name;
  std::string name;       ///< register, label, symbol; of an address: its base, "" for none
  uint64_t bits = 0;      ///< of a number: an integer, or the bits of a float
  int64_t offset = 0;     ///< of an address
  bool isNegated = false; ///< "!%p"
  std::string second;     ///< "%p" of "%r1|%p"
  std::vector<Operand> elements;
};

struct Statement {
  std::string guard; ///< predicate, "" for none
  bool isNegated = false;
  std::vector<std::string> opcode; ///< its parts between dots
  std::vector<Operand> operands;
  uint32_t line = 0;
};

/// The statement in tokens [i, the semicolon); moves i behind it.
Statement parseStatement(const std::vector<Token> &tokens, size_t &i);

/// An integer or "0f3F800000" or "0d...".
bool parseNumber(const std::string &text, uint64_t &bits);

} // namespace emulated
