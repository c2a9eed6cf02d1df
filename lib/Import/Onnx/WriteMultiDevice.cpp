// SPDX-License-Identifier: Apache-2.0
// A plan in ONNX's fields for several devices.
#include "autopar/Import/Onnx/MultiDevice.h"

#include "MeshCoordinates.h"
#include "ModelFile.h"
#include "Proto.h"

#include "autopar/Base/OutputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace mlir::autopar;
using ::autopar::AxisList;
using ::autopar::Plan;
using ::autopar::Status;

namespace {
class Writer {
public:
  Writer(const Plan &plan, const ::autopar::PlanDetails &details) : plan(plan) {
    for (const ::autopar::PlanRow &row : details.rows)
      if (row.isParameter)
        shapes[row.name] = row.shape;
    for (size_t i = 0; i < plan.stages.size(); ++i)
      for (const std::string &op : plan.stages[i].ops)
        stageOf[op] = i;
  }

  void write(onnx::ModelProto &model) {
    constexpr int64_t firstVersion = 11; // with fields for several devices
    model.set_ir_version(std::max<int64_t>(model.ir_version(), firstVersion));
    std::vector<Axes> meshes;
    for (const auto &stage : plan.stages)
      meshes.push_back(plan.findMesh(stage.mesh)->axes);
    std::string name = textOf(meshes);
    model.clear_configuration();
    auto *configuration = model.add_configuration();
    configuration->set_name(name);
    configuration->set_num_devices(static_cast<int32_t>(plan.deviceCount));
    for (const auto &tensor : model.graph().initializer())
      dims[tensor.name()].assign(tensor.dims().begin(), tensor.dims().end());
    for (const auto &input : model.graph().input())
      if (!dims.count(input.name()))
        ranks[input.name()] = input.type().tensor_type().shape().dim_size();
    for (onnx::NodeProto &node : *model.mutable_graph()->mutable_node())
      writeNode(node, name);
  }

private:
  void writeNode(onnx::NodeProto &node, const std::string &name) {
    node.clear_device_configurations();
    auto known = stageOf.find(node.name());
    bool hasStage = plan.stages.size() > 1 && known != stageOf.end();
    onnx::NodeDeviceConfigurationProto own;
    own.set_configuration_id(name);
    if (hasStage)
      own.set_pipeline_stage(static_cast<int32_t>(known->second));
    std::set<std::string> done;
    if (hasStage || plan.stages.size() == 1)
      for (const std::string &input : node.input())
        if (done.insert(input).second)
          writeSpec(own, input, hasStage ? known->second : 0);
    if (hasStage || own.sharding_spec_size() > 0)
      *node.add_device_configurations() = own;
  }

  /// Parts per axis of the tensor in the file: which dimensions of the imported one make it up.
  std::optional<std::vector<size_t>> partsPerAxis(const std::string &tensor, size_t rank) const {
    auto own = dims.find(tensor);
    if (own == dims.end()) {
      auto input = ranks.find(tensor);
      if (input == ranks.end() || input->second != rank)
        return std::nullopt;
      return std::vector<size_t>(rank, 1);
    }
    auto imported = shapes.find(tensor);
    if (imported == shapes.end())
      return std::nullopt;
    std::vector<size_t> parts;
    size_t at = 0;
    for (int64_t extent : own->second) {
      int64_t product = 1;
      size_t first = at;
      while (at < imported->second.size() && (product < extent || at == first))
        product *= imported->second[at++];
      if (product != extent)
        return std::nullopt;
      parts.push_back(at - first);
    }
    if (at != imported->second.size())
      return std::nullopt;
    return parts;
  }

  void writeSpec(onnx::NodeDeviceConfigurationProto &own, const std::string &tensor, size_t stage) {
    auto planned = plan.values.find(tensor);
    if (planned == plan.values.end())
      return;
    std::vector<AxisList> lists = planned->second.dims;
    if (auto input = ranks.find(tensor); input != ranks.end() && lists.size() == input->second + 1)
      lists.erase(lists.begin()); // micro-batches
    std::optional<std::vector<size_t>> parts = partsPerAxis(tensor, lists.size());
    if (!parts)
      return; // dimensions were joined: nothing that the file could say
    const ::autopar::Mesh &mesh = *plan.findMesh(plan.stages[stage].mesh);
    auto *spec = own.add_sharding_spec();
    spec->set_tensor_name(tensor);
    int64_t count = 1;
    size_t at = 0;
    auto imported = shapes.find(tensor);
    for (size_t axis = 0; axis < parts->size(); ++axis) {
      auto *dim = spec->add_sharded_dim();
      dim->set_axis(static_cast<int64_t>(axis));
      for (size_t part = 0; part < (*parts)[axis]; ++part, ++at) {
        auto *simple = dim->add_simple_sharding();
        if (imported != shapes.end())
          simple->set_dim_value(imported->second[at]);
        int64_t shards = shardsOver(mesh.axes, lists[at]);
        simple->set_num_shards(shards);
        count *= shards;
      }
    }
    std::vector<std::vector<int64_t>> holders(static_cast<size_t>(count));
    for (int64_t point = 0; point < mesh.deviceCount(); ++point) {
      int64_t shard = 0;
      for (const AxisList &list : lists)
        shard = shard * shardsOver(mesh.axes, list) + placeAlong(mesh.axes, list, point);
      holders[static_cast<size_t>(shard)].push_back(mesh.devices[static_cast<size_t>(point)]);
    }
    for (size_t shard = 0; shard < holders.size(); ++shard) {
      if (holders[shard].size() == 1) {
        spec->add_device(holders[shard].front());
        continue;
      }
      // Numbers behind those of the devices stand for groups.
      int64_t key = plan.deviceCount + static_cast<int64_t>(shard);
      spec->add_device(key);
      auto *group = spec->add_index_to_device_group_map();
      group->set_key(key);
      for (int64_t device : holders[shard])
        group->add_value(device);
    }
  }

  const Plan &plan;
  std::map<std::string, std::vector<int64_t>> shapes; ///< of parameters, as imported
  std::map<std::string, std::vector<int64_t>> dims;   ///< of parameters, in the file
  std::map<std::string, size_t> ranks;                ///< of inputs
  std::map<std::string, size_t> stageOf;
};
} // namespace

Status mlir::autopar::writeMultiDevice(const std::string &path, const Plan &plan,
                                       const ::autopar::PlanDetails &details,
                                       const std::string &output) {
  onnx::ModelProto model;
  AUTOPAR_RETURN_IF_ERROR(readWholeModel(path, model));
  bool isExternal = llvm::any_of(model.graph().initializer(), [](const onnx::TensorProto &tensor) {
    return tensor.external_data_size() > 0;
  });
  if (isExternal && llvm::sys::path::parent_path(path) != llvm::sys::path::parent_path(output))
    return Status::badInput(output +
                            ": the model names files with its weights by their place "
                            "beside it; expected a file in the folder of " +
                            path);
  Writer(plan, details).write(model);
  std::string text;
  if (!model.SerializeToString(&text))
    return Status::internal(output + ": the model cannot be written");
  return ::autopar::writeWholeFile(output, text);
}
