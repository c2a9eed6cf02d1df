// SPDX-License-Identifier: Apache-2.0
// What a person demands of a plan before it is searched: "stages=4, mesh=data=2xtensor=2, fc1_w:
// [-, tensor]". Flags, plans in degrees and autopar-compile --constrain all become one of these.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Plan/Plan.h"

namespace autopar {

class Constraints {
public:
  /// Settings (`key=value`) and shardings (`name: [axes per dimension]`, or per factor for an
  /// operation, as plans have them; axes joined by '*', '-' for none; `name: not [...]` forbids
  /// one;
  /// '*' in a name stands for a part without '.' and '/'), separated by commas. Errors point at the
  /// character. `what` says what the text is
  /// ("--constrain"). Settings:
  ///   stages         a number, or auto      virtual-stages  stages of a mesh that take turns
  ///   micro-batches  a number, or auto      schedule        a name of makeSchedule, or auto
  ///   mesh           data=2xtensor=2, of a stage; data=1/data=3: of each
  ///   batch-axis     the batch, and nothing but the batch, is split over this axis
  ///   context-axis   positions, and nothing else, are split over this axis
  ///   expert-axis    experts of products are split over this one, the batch elsewhere; over the
  ///                  weight axis too (expert*tensor), or it alone: whole experts, all else as ever
  ///   weight-axis    matrix products and their parameters are split over this one, the batch not
  ///   sequence       true: positions are split over the weight axis where nothing else is;
  ///                  false: they never are
  ///   recompute      none, auto (what pays under the memory limit) or full (every layer)
  ///   offload        what lies in host memory: none, state (of the optimizer), activations (where
  ///                  they would have to be computed again), all (both), or auto (all or part of
  ///                  it, where nothing fits without, or a step is shorter with it)
  ///   zero           0 to 3: what may be split over the batch and context axes too: nothing,
  ///                  optimizer state, gradients, parameters
  static Result<Constraints> parse(const std::string &what, const std::string &text);
  /// What parse reads; settings before shardings, in alphabetical order.
  std::string toText() const;
  bool empty() const { return settings.empty() && values.empty(); }

  /// Demands one more thing, said by `what` ("--stages"). Error where another value is demanded.
  Status demand(const std::string &what, const std::string &key, const std::string &value);
  /// All that `other` demands.
  Status demand(const Constraints &other);

  /// What is left for a search of shardings once there are stages and meshes: roles of axes and
  /// shardings.
  Constraints ofShardings() const;
  /// BadInput where something else is demanded too; says who decides it.
  Status checkOfShardings() const;
  /// Demands nothing of this setting any more.
  void drop(const std::string &key) { settings.erase(key); }
  /// The same of the stages of operations.
  void dropStages();

  bool has(const std::string &key) const { return settings.count(key) != 0; }
  /// "" where nothing is demanded.
  std::string word(const std::string &key) const;
  /// The axes that are joined by '*'; none where nothing is demanded.
  AxisList axes(const std::string &key) const;
  /// The number; `absent` where nothing is demanded, 0 for auto.
  int64_t number(const std::string &key, int64_t absent) const;
  /// The axes of `mesh`: of every stage, or of each that stages take turns on; empty where none is
  /// demanded.
  std::vector<std::vector<MeshAxis>> meshes() const;
  /// Those of every stage; empty where none or several are demanded.
  std::vector<MeshAxis> mesh() const;
  /// The ranks of the `expert-axis` on every demanded mesh divide it; 1 without the one or other.
  int64_t expertParts() const;
  struct Sharding {
    std::string name; ///< may have '*'
    std::vector<AxisList> axes;
    bool isForbidden = false;
    int64_t stage = -1; ///< demanded instead of a sharding; -1: none
    bool matches(std::string_view id) const;
    bool operator==(const Sharding &) const = default;
  };
  /// Demanded shardings, by name.
  std::vector<Sharding> shardings() const;
  /// Demanded stages, by operation.
  std::map<std::string, int64_t> stages() const;
  void demandSharding(const std::string &what, const std::string &name, std::vector<AxisList> axes);
  void demandStage(const std::string &what, const std::string &name, int64_t stage);
  /// Rules a sharding of a name out, besides those that are ruled out already.
  void forbid(const std::string &what, const std::string &name, std::vector<AxisList> axes);

  /// BadInput: where the demand was made, and `message`. The key of a sharding is its name.
  Status errorAt(const std::string &key, const std::string &message) const;

private:
  struct Demand {
    std::string value;
    Sharding sharding;
    std::string source; ///< --constrain "...": at character 5
  };

  std::map<std::string, Demand> settings; ///< by key
  std::map<std::string, Demand> values;   ///< shardings, by name; of forbidden ones by text
};

} // namespace autopar
