// SPDX-License-Identifier: Apache-2.0
// The rules that every plan keeps, whoever wrote it.
#include "autopar/Plan/Plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace autopar {
namespace {

std::string quoted(const std::string &word) { return "'" + word + "'"; }

std::string axisNames(const std::vector<const Mesh *> &meshes) {
  std::string names;
  for (const Mesh *mesh : meshes)
    for (const MeshAxis &axis : mesh->axes)
      names += (names.empty() ? "" : ", ") + axis.name;
  return names.empty() ? "none" : names;
}

/// Every axis exists on one of `meshes` and is used once.
Status verifyAxes(const std::vector<AxisList> &lists, const std::vector<const Mesh *> &meshes,
                  const std::string &place) {
  std::set<std::string> used;
  for (size_t i = 0; i < lists.size(); ++i)
    for (const std::string &axis : lists[i]) {
      std::string where = place + "[" + std::to_string(i) + "]";
      if (std::none_of(meshes.begin(), meshes.end(),
                       [&](const Mesh *mesh) { return mesh->axisIndex(axis) >= 0; }))
        return Status::badInput(where + ": unknown axis " + quoted(axis) +
                                "; axes here: " + axisNames(meshes));
      if (!used.insert(axis).second)
        return Status::badInput(where + ": axis " + quoted(axis) + " is used twice");
    }
  return Status::ok();
}

Status verifyMeshes(const Plan &plan) {
  std::set<std::string> names;
  for (const Mesh &mesh : plan.meshes) {
    if (mesh.name.empty() || !names.insert(mesh.name).second)
      return Status::badInput("meshes: " + quoted(mesh.name) + " is empty or appears twice");
    Cluster devices = Cluster::cpuRanks(plan.deviceCount);
    if (Status status = mesh.verify(devices); !status.isOk())
      return status.at("meshes");
  }
  return Status::ok();
}

bool sameOrDisjoint(const Mesh &a, const Mesh &b) {
  std::set<int64_t> inA(a.devices.begin(), a.devices.end());
  std::set<int64_t> inB(b.devices.begin(), b.devices.end());
  if (inA == inB)
    return true;
  return std::none_of(inB.begin(), inB.end(), [&](int64_t device) { return inA.count(device); });
}

Status verifyStages(const Plan &plan) {
  if (plan.stages.empty())
    return Status::badInput("stages: is empty, expected at least one");
  std::set<std::string> names, ops;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const PlanStage &stage = plan.stages[i];
    std::string place = "stages[" + std::to_string(i) + "]";
    if (!names.insert(stage.name).second)
      return Status::badInput(place + ".name: " + quoted(stage.name) + " appears twice");
    const Mesh *mesh = plan.findMesh(stage.mesh);
    if (!mesh)
      return Status::badInput(place + ".mesh: " + quoted(stage.mesh) + " is not among meshes");
    if (stage.ops.empty() && plan.stages.size() > 1)
      return Status::badInput(place + ".ops: is empty, but there are several stages");
    for (const std::string &op : stage.ops)
      if (!ops.insert(op).second)
        return Status::badInput(place + ".ops: op " + quoted(op) + " is already in a stage");
    for (size_t j = 0; j < i; ++j)
      if (!sameOrDisjoint(*plan.findMesh(plan.stages[j].mesh), *mesh))
        return Status::badInput(place +
                                ".mesh: shares some but not all devices with the mesh of "
                                "stage " +
                                quoted(plan.stages[j].name));
  }
  return Status::ok();
}

} // namespace

const Mesh *Plan::findMesh(std::string_view meshName) const {
  for (const Mesh &mesh : meshes)
    if (mesh.name == meshName)
      return &mesh;
  return nullptr;
}

Result<std::vector<Mesh>> Plan::stageMeshes() const {
  std::vector<Mesh> found;
  std::vector<MeshAxis> all;
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::string &expected = stages[s % meshes.size()].mesh;
    if (stages[s].mesh != expected)
      return Status::badInput("stage \"" + stages[s].name + "\" is on mesh \"" + stages[s].mesh +
                              "\"; stages take turns, expected \"" + expected + "\"");
    if (s >= meshes.size())
      continue;
    for (size_t before = 0; before < s; ++before)
      if (stages[before].mesh == expected)
        return Status::badInput("stage \"" + stages[s].name + "\" is on mesh \"" + expected +
                                "\", as stage \"" + stages[before].name + "\" is; stages take " +
                                "turns on all " + std::to_string(meshes.size()) +
                                " meshes, expected one that no stage before it is on");
    found.push_back(*findMesh(stages[s].mesh));
    for (const MeshAxis &axis : found.back().axes)
      if (std::none_of(all.begin(), all.end(),
                       [&](const MeshAxis &known) { return known.name == axis.name; }))
        all.push_back({axis.name, 1});
  }
  for (Mesh &mesh : found) {
    std::vector<MeshAxis> axes, own;
    for (const MeshAxis &axis : all) {
      axes.push_back({axis.name, std::max<int64_t>(1, mesh.axisSize(axis.name))});
      if (mesh.axisIndex(axis.name) >= 0)
        own.push_back(axes.back());
    }
    if (own != mesh.axes)
      return Status::badInput("mesh \"" + mesh.name + "\" has its axes in another order than \"" +
                              found.front().name + "\"; expected one order for all stages");
    mesh.axes = axes;
  }
  return found;
}

Status Plan::verify() const {
  if (deviceCount < 1 || deviceCount > (int64_t(1) << 24))
    return Status::badInput("devices: is " + std::to_string(deviceCount) + ", expected 1 to 2^24");
  AUTOPAR_RETURN_IF_ERROR(verifyMeshes(*this));
  AUTOPAR_RETURN_IF_ERROR(verifyStages(*this));
  if (microBatches < 1)
    return Status::badInput("time.micro_batches: is " + std::to_string(microBatches) +
                            ", expected at least 1");
  // One lookup table for all ops: plans have thousands of them.
  std::map<std::string_view, size_t> stageOf;
  for (size_t i = 0; i < stages.size(); ++i)
    for (const std::string &op : stages[i].ops)
      stageOf.emplace(op, i);
  std::vector<const Mesh *> all;
  for (const Mesh &mesh : meshes)
    all.push_back(&mesh);
  auto meshesOf = [&](std::string_view op) -> std::vector<const Mesh *> {
    auto found = stageOf.find(op);
    return found == stageOf.end() ? all
                                  : std::vector<const Mesh *>{findMesh(stages[found->second].mesh)};
  };
  bool listed = !stages.front().ops.empty();
  for (const auto &[id, strategy] : ops) {
    if (listed && !stageOf.count(id))
      return Status::badInput("ops." + id + ": is in no stage");
    AUTOPAR_RETURN_IF_ERROR(verifyAxes(strategy.factors, meshesOf(id), "ops." + id + ".factors"));
  }
  for (const auto &[id, sharding] : values) {
    std::string_view op = std::string_view(id).substr(0, id.find('#'));
    AUTOPAR_RETURN_IF_ERROR(verifyAxes(sharding.dims, meshesOf(op), "shard." + id));
  }
  // What lowering makes of an operation (its result's "/reshard", the "/scaled/..." of a product in
  // 8 bits, the "/grouped/..." of one by groups) is called after it, and on its stage.
  auto isListed = [&](std::string_view op) {
    constexpr std::string_view reshard = "/reshard", scaled = "/scaled/", grouped = "/grouped/";
    if (stageOf.count(op))
      return true;
    if (op.ends_with(reshard))
      op.remove_suffix(reshard.size());
    op = op.substr(0, op.rfind(scaled));
    return stageOf.count(op.substr(0, op.find(grouped))) > 0;
  };
  for (const auto &[field, names] : {std::pair("recompute: ", &recompute),
                                     std::pair("offload_activations: ", &offloadActivations)})
    for (const std::string &op : *names)
      if (listed && !isListed(op))
        return Status::badInput(field + ("op " + quoted(op)) + " is in no stage");
  return Status::ok();
}

Status Plan::verify(const Cluster &cluster) const {
  AUTOPAR_RETURN_IF_ERROR(verify());
  if (deviceCount != cluster.deviceCount())
    return Status::mismatch("plan is for " + std::to_string(deviceCount) + " devices, cluster " +
                            quoted(cluster.name) + " has " + std::to_string(cluster.deviceCount()) +
                            "; search again for this cluster");
  return Status::ok();
}

} // namespace autopar
