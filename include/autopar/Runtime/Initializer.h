// SPDX-License-Identifier: Apache-2.0
// Where a run takes parameters from that do not come with the model: random numbers by name
// pattern, or safetensors files.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime {

/// A box of a global tensor.
struct Box {
  std::vector<int64_t> offset, extent;
};

class WeightFiles;

/// Fills parameters that have no weights, and those of a training step in place of the model's own;
/// files fill all that they name. Drawn numbers are a function of (seed, parameter name, global
/// element index): the same under any sharding. Integers and bools become zero.
class Initializer {
public:
  /// "normal(0.02)", "*.bias=zeros, ln*.weight=ones, *=normal(0.02), seed=7", or the path of a
  /// .safetensors file or of an index of several. The first pattern that fits a name decides. Usage
  /// points at the character that was not expected; NoInput and BadInput speak of files.
  static Result<Initializer> parse(const std::string &text);
  /// What was parsed and, of files, which versions of them: equal ones give equal values.
  std::string identity() const;

  /// Whether it gives the values of this port.
  bool covers(const artifact::Port &port) const;
  /// Usage or BadInput where a pattern fits no parameter, a parameter cannot be drawn as asked for,
  /// or has no weights and is not covered.
  Status check(const std::vector<const artifact::Port *> &ports) const;
  /// Of files: which of their tensors the program has no parameter for, and which parameters they
  /// do not give; a line each.
  std::vector<std::string> remarks(const std::vector<const artifact::Port *> &ports) const;
  /// The box of a port that is covered, into `local` of shape `localShape`.
  Status fill(const artifact::Port &port, const Box &box, void *local,
              const std::vector<int64_t> &localShape) const;

private:
  /// How to draw a tensor.
  struct Rule {
    std::string pattern = "*", text;
    enum class Kind { Normal, Uniform, Constant } kind = Kind::Normal;
    enum class Fan { None, Xavier, Kaiming } fan = Fan::None;
    double a = 0,
           b = 0; ///< mean and deviation; least and most; the value; gain where there is a fan
    int64_t inputDim = 1; ///< of a weight, for fans
  };
  friend class InitializerParser;

  std::string words;
  std::vector<Rule> rules;
  uint64_t seed = 0;
  std::shared_ptr<const WeightFiles> files;

  const Rule *ruleFor(const artifact::Port &port) const;
  /// Whether the files have it by the name of the model's source, transposed; else by its own name.
  bool isTransposed(const artifact::Port &port) const;
  std::string nameInFiles(const artifact::Port &port) const;
  void copyFromFiles(const artifact::Port &port, const Box &box, uint8_t *local,
                     const std::vector<int64_t> &localShape) const;
  static double draw(const Rule &rule, uint64_t key, uint64_t index);
  static Result<Rule> scaled(const Rule &rule, const artifact::Port &port);
};

} // namespace autopar::runtime
