// SPDX-License-Identifier: Apache-2.0
// ONNX's fields for several devices as demands on a plan: meshes are sought on which every spec is
// a split over axes.
#include "autopar/Import/Onnx/MultiDevice.h"

#include "MeshCoordinates.h"
#include "ModelFile.h"
#include "Proto.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::AxisList;
using ::autopar::Constraints;
using ::autopar::Result;
using ::autopar::Status;

namespace {
/// A spec, with devices counted within their stage.
struct Spec {
  std::string tensor;
  std::string node;
  int64_t stage = 0;
  std::vector<int64_t> shards;        ///< per dimension
  std::map<int64_t, int64_t> shardOf; ///< by device: its shard, row by row
};

class Reader {
public:
  Reader(const std::string &path, int64_t devices) : path(path), devices(devices) {}

  Result<Constraints> read(const onnx::ModelProto &model, size_t &unread) {
    AUTOPAR_RETURN_IF_ERROR(findConfiguration(model));
    collectTensors(model.graph());
    for (const onnx::NodeProto &node : model.graph().node())
      AUTOPAR_RETURN_IF_ERROR(readNode(node));
    int64_t stages = 1;
    for (const auto &[node, stage] : stageOf)
      stages = std::max(stages, stage + 1);
    Constraints demands;
    AUTOPAR_RETURN_IF_ERROR(demands.demand(path, "stages", std::to_string(stages)));
    if (stages > 1)
      for (const auto &[node, stage] : stageOf)
        demands.demandStage(path, node, stage);
    AUTOPAR_RETURN_IF_ERROR(shareDevices(static_cast<size_t>(stages)));
    AUTOPAR_RETURN_IF_ERROR(findMeshes());
    AUTOPAR_RETURN_IF_ERROR(demands.demand(path, "mesh", textOf(meshes)));
    std::map<std::string, std::vector<AxisList>> found;
    for (const Spec &spec : specs) {
      std::optional<std::vector<AxisList>> lists = axesOf(spec, meshOf(spec));
      if (!lists)
        return bad("node \"" + spec.node + "\": the sharding of \"" + spec.tensor +
                   "\" does not fit the mesh " + textOf(meshOf(spec)) + " of the others");
      auto [it, isNew] = found.try_emplace(spec.tensor, *lists);
      if (!isNew && it->second != *lists)
        return bad("node \"" + spec.node + "\" has \"" + spec.tensor +
                   "\" lie differently than another node has it");
    }
    for (auto &[tensor, lists] : found)
      demands.demandSharding(path, tensor, lists);
    unread = unreadSpecs;
    return demands;
  }

private:
  Status bad(const std::string &what) const { return Status::badInput(path + ": " + what); }

  Status findConfiguration(const onnx::ModelProto &model) {
    if (model.configuration_size() != 1)
      return bad("has " + std::to_string(model.configuration_size()) +
                 " configurations for several devices; expected one");
    const auto &configuration = model.configuration(0);
    name = configuration.name();
    if (configuration.num_devices() != devices)
      return bad("configuration \"" + name + "\" is for " +
                 std::to_string(configuration.num_devices()) + " devices, there are " +
                 std::to_string(devices));
    return Status::ok();
  }

  void collectTensors(const onnx::GraphProto &graph) {
    for (const auto &tensor : graph.initializer())
      tensors.insert(tensor.name());
    for (const auto &input : graph.input())
      tensors.insert(input.name());
  }

  Status readNode(const onnx::NodeProto &node) {
    for (const auto &own : node.device_configurations()) {
      if (own.configuration_id() != name)
        return bad("node \"" + node.name() + "\" names configuration \"" + own.configuration_id() +
                   "\", which the model does not have");
      if (own.has_pipeline_stage()) {
        if (own.pipeline_stage() < 0 || node.name().empty())
          return bad("node \"" + node.name() +
                     "\": a pipeline stage wants a name and a number "
                     "that is not negative");
        stageOf[node.name()] = own.pipeline_stage();
      }
      for (const auto &spec : own.sharding_spec()) {
        if (tensors.contains(spec.tensor_name()))
          AUTOPAR_RETURN_IF_ERROR(readSpec(node, own.pipeline_stage(), spec));
        else
          ++unreadSpecs;
      }
    }
    return Status::ok();
  }

  Status readSpec(const onnx::NodeProto &node, int64_t stage,
                  const onnx::ShardingSpecProto &proto) {
    Spec spec{proto.tensor_name(), node.name(), stage, {}, {}};
    auto refuse = [&](const std::string &why) {
      return bad("node \"" + node.name() + "\": the sharding of \"" + spec.tensor + "\" " + why);
    };
    int64_t count = 1, axis = 0;
    for (const auto &dim : proto.sharded_dim()) {
      if (dim.axis() != axis++)
        return refuse("leaves axes out or counts them from the back; expected one entry for each "
                      "axis, in order");
      for (const auto &part : dim.simple_sharding()) {
        if (part.num_shards() < 1)
          return refuse("has " + std::to_string(part.num_shards()) + " shards");
        spec.shards.push_back(part.num_shards());
        count *= part.num_shards();
      }
    }
    std::map<int64_t, std::vector<int64_t>> groups;
    for (const auto &entry : proto.index_to_device_group_map())
      groups[entry.key()].assign(entry.value().begin(), entry.value().end());
    if (proto.device_size() != count)
      return refuse("has " + std::to_string(count) + " shards on " +
                    std::to_string(proto.device_size()) + " devices or groups");
    for (int shard = 0; shard < proto.device_size(); ++shard) {
      auto group = groups.find(proto.device(shard));
      std::vector<int64_t> members =
          group == groups.end() ? std::vector<int64_t>{proto.device(shard)} : group->second;
      for (int64_t device : members) {
        if (device < 0 || device >= devices)
          return refuse("names device " + std::to_string(device) + " of " +
                        std::to_string(devices));
        if (!spec.shardOf.emplace(device, shard).second)
          return refuse("has device " + std::to_string(device) + " hold two shards");
      }
    }
    specs.push_back(std::move(spec));
    return Status::ok();
  }

  /// How many devices each stage has: those of its specs, which lie side by side; stages without
  /// specs share the rest. Counts the devices of specs from the first of their stage.
  Status shareDevices(size_t stages) {
    sizes.assign(stages, 0);
    std::vector<int64_t> first(stages, 0), ownerOf(static_cast<size_t>(devices), -1);
    auto refuse = [&](const Spec &spec, int64_t size) {
      return bad("node \"" + spec.node + "\": \"" + spec.tensor + "\" is not on all " +
                 std::to_string(size) + " devices of its stage, and on no other");
    };
    for (const Spec &spec : specs) {
      auto stage = static_cast<size_t>(spec.stage);
      auto size = static_cast<int64_t>(spec.shardOf.size());
      if (sizes[stage] == 0) {
        sizes[stage] = stages == 1 ? devices : size;
        first[stage] = spec.shardOf.begin()->first;
        for (auto [device, shard] : spec.shardOf)
          if (int64_t &owner = ownerOf[static_cast<size_t>(device)]; owner < 0)
            owner = spec.stage;
          else
            return bad("has device " + std::to_string(device) + " in stage " +
                       std::to_string(owner) + " and in stage " + std::to_string(spec.stage));
      }
      if (size != sizes[stage] || spec.shardOf.begin()->first != first[stage] ||
          spec.shardOf.rbegin()->first != first[stage] + size - 1)
        return refuse(spec, sizes[stage]);
    }
    int64_t rest = devices, open = 0;
    for (int64_t size : sizes) {
      rest -= size;
      open += size == 0;
    }
    if (open > 0 ? rest < open || rest % open : rest != 0)
      return bad("has " + std::to_string(stages) + " pipeline stages, which do not share " +
                 std::to_string(devices) + " devices: " + std::to_string(rest) + " are left for " +
                 std::to_string(open) + " of them");
    for (int64_t &size : sizes)
      size = size == 0 ? rest / open : size;
    for (Spec &spec : specs) {
      std::map<int64_t, int64_t> within;
      for (auto [device, shard] : spec.shardOf)
        within[device - first[static_cast<size_t>(spec.stage)]] = shard;
      spec.shardOf = std::move(within);
    }
    return Status::ok();
  }

  /// The meshes that the configuration is named by, or those with the fewest axes that all specs
  /// fit: for stages of different sizes, one axis.
  Status findMeshes() {
    Constraints named;
    if (named.demand("", "mesh", name).isOk()) {
      meshes = named.meshes();
      if (meshes.size() == 1)
        meshes.resize(sizes.size(), Axes(meshes.front()));
      if (std::equal(meshes.begin(), meshes.end(), sizes.begin(), sizes.end(),
                     [](const Axes &axes, int64_t size) { return sizeOf(axes) == size; }))
        return Status::ok();
    }
    meshes.clear();
    if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) != sizes.end()) {
      for (int64_t size : sizes)
        meshes.push_back({{"x", size}});
      return Status::ok();
    }
    for (size_t count = 1; count <= 3; ++count) {
      Axes axes;
      if (tryMeshes(sizes.front(), count, axes)) {
        meshes.assign(sizes.size(), axes);
        return Status::ok();
      }
    }
    return bad("no mesh of " + std::to_string(sizes.front()) +
               " devices with up to three axes fits all "
               "shardings of configuration \"" +
               name + "\"");
  }

  const Axes &meshOf(const Spec &spec) const { return meshes[static_cast<size_t>(spec.stage)]; }

  bool tryMeshes(int64_t rest, size_t count, Axes &axes) const {
    const char *names[] = {"x", "y", "z"};
    if (count == 1) {
      axes.push_back({names[axes.size()], rest});
      bool fits = std::all_of(specs.begin(), specs.end(),
                              [&](const Spec &spec) { return axesOf(spec, axes).has_value(); });
      if (!fits)
        axes.pop_back();
      return fits;
    }
    for (int64_t size = 2; size < rest; ++size) {
      if (rest % size)
        continue;
      axes.push_back({names[axes.size()], size});
      if (tryMeshes(rest / size, count - 1, axes))
        return true;
      axes.pop_back();
    }
    return false;
  }

  /// The axes per dimension under which every device holds the shard that the spec says.
  static std::optional<std::vector<AxisList>> axesOf(const Spec &spec, const Axes &axes) {
    std::vector<AxisList> lists(spec.shards.size());
    int64_t behind = 1; // shards of the dimensions after this one
    for (size_t dim = spec.shards.size(); dim-- > 0; behind *= spec.shards[dim]) {
      if (spec.shards[dim] == 1)
        continue;
      bool isFound = false;
      for (unsigned set = 1; set < 1u << axes.size() && !isFound; ++set) {
        AxisList along;
        for (size_t i = 0; i < axes.size(); ++i)
          if (set & 1u << i)
            along.push_back(axes[i].name);
        isFound = shardsOver(axes, along) == spec.shards[dim] &&
                  std::all_of(spec.shardOf.begin(), spec.shardOf.end(), [&](const auto &entry) {
                    return placeAlong(axes, along, entry.first) ==
                           entry.second / behind % spec.shards[dim];
                  });
        if (isFound)
          lists[dim] = along;
      }
      if (!isFound)
        return std::nullopt;
    }
    return lists;
  }

  std::string path, name;
  int64_t devices;
  std::vector<int64_t> sizes; ///< of the stages
  std::vector<Axes> meshes;   ///< per stage
  llvm::StringSet<> tensors;  ///< parameters and inputs
  std::map<std::string, int64_t> stageOf;
  std::vector<Spec> specs;
  size_t unreadSpecs = 0;
};
} // namespace

Result<Constraints> mlir::autopar::readMultiDevice(const std::string &path, int64_t devices,
                                                   MLIRContext &context, size_t &unread) {
  ModelFile file;
  if (failed(file.open(path, FileLineColLoc::get(&context, path, 0, 0))))
    return Status::badInput("");
  return Reader(path, devices).read(file.model(), unread);
}
