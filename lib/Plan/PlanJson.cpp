// SPDX-License-Identifier: Apache-2.0
// Plans as JSON: written one op per line so that two plans can be compared line by line.
#include "autopar/Plan/Plan.h"

#include <algorithm>
#include <limits>

#include "autopar/Base/InputFile.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMost = 1e30;
constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();

std::string indexed(const std::string &list, size_t i) {
  return list + "[" + std::to_string(i) + "]";
}

Json toJsonValue(const Mesh &mesh) {
  Json axes = Json::array();
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  return {{"axes", axes}, {"devices", mesh.devices}};
}

//===-- the two long maps, written without a tree: a deep model has a million entries --------===//

void append(std::string &text, const std::string &word) {
  auto isPlain = [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  if (std::all_of(word.begin(), word.end(), isPlain))
    text.append(1, '"').append(word).append(1, '"');
  else
    text += Json(word).dump();
}

template <typename T>
void append(std::string &text, const std::vector<T> &list) {
  text += '[';
  for (const T &entry : list) {
    if (&entry != &list.front())
      text += ',';
    append(text, entry);
  }
  text += ']';
}

void append(std::string &text, const OpStrategy &strategy) { append(text, strategy.factors); }

void append(std::string &text, const ValueSharding &sharding) { append(text, sharding.dims); }

void append(std::string &text, const Mesh &mesh) { text += toJsonValue(mesh).dump(); }

/// An object with one line per entry.
template <typename Entries, typename Key, typename Value>
void appendLines(std::string &text, const Entries &entries, Key key, Value value) {
  text += '{';
  bool first = true;
  for (const auto &entry : entries) {
    append(text += first ? "\n    " : ",\n    ", key(entry));
    append(text += ": ", value(entry));
    first = false;
  }
  text += first ? "}" : "\n  }";
}

template <typename Map>
void appendLines(std::string &text, const Map &map) {
  appendLines(
      text, map, [](const auto &entry) -> auto & { return entry.first; },
      [](const auto &entry) -> auto & { return entry.second; });
}

//===-- the rest -----------------------------------------------------------------------------===//

/// How work and state are shared.
void addSharing(Json &result, const PlanBelief &belief) {
  if (belief.memoryLimit > 0)
    result["memory_limit"] = belief.memoryLimit;
  for (const AxisUse &use : belief.axes)
    result["axes"].push_back({{"axis", use.axis},
                              {"samples", use.samples},
                              {"positions", use.positions},
                              {"experts", use.experts},
                              {"model", use.model}});
  for (const StateParts &state : belief.state)
    result["state"].push_back({{"parameters", state.parameters},
                               {"parameter_parts", state.parameterParts},
                               {"optimizer", state.optimizer},
                               {"optimizer_parts", state.optimizerParts}});
}

Json toJsonValue(const PlanBelief &belief) {
  Json alternatives = Json::array();
  for (const PlanAlternative &one : belief.alternatives)
    alternatives.push_back({{"change", one.change}, {"step_us", one.stepUs}});
  Json result = {{"step_us", belief.stepUs},       {"lower_bound_us", belief.lowerBoundUs},
                 {"peak_bytes", belief.peakBytes}, {"engine", belief.engine},
                 {"stopped_by", belief.stoppedBy}, {"alternatives", alternatives}};
  if (belief.kernelsUs > 0)
    result["kernels_us"] = belief.kernelsUs;
  if (belief.inParts > 0)
    result["operations_in_parts"] = belief.inParts;
  if (belief.recomputeUs > 0) {
    result["recompute_us"] = belief.recomputeUs;
    result["saved_bytes"] = belief.savedBytes;
  }
  if (!belief.time.empty()) {
    Json time = Json::array();
    for (const CostTerm &term : belief.time)
      time.push_back(
          {{"kind", term.kind}, {"axes", term.axes}, {"us", term.us}, {"bytes", term.bytes}});
    result["time"] = time;
  }
  if (!belief.memory.empty()) {
    Json memory = Json::array();
    for (const MemoryParts &parts : belief.memory)
      memory.push_back({{"parameters", parts.parameters},
                        {"optimizer", parts.optimizer},
                        {"gradients", parts.gradients},
                        {"activations", parts.activations},
                        {"workspace", parts.workspace}});
    result["memory"] = memory;
  }
  addSharing(result, belief);
  return result;
}

/// A list of lists of axis names.
std::vector<AxisList> readAxisLists(const nlohmann::json &json, const std::string &place,
                                    Status &status) {
  std::vector<AxisList> lists;
  auto fail = [&](const std::string &where, const char *what) {
    if (status.isOk())
      status = Status::badInput(where + ": " + what);
  };
  if (!json.is_array())
    fail(place, "expected a list of lists of axis names");
  else
    for (size_t i = 0; i < json.size(); ++i) {
      lists.emplace_back();
      if (!json[i].is_array()) {
        fail(indexed(place, i), "expected a list of axis names");
        continue;
      }
      for (const nlohmann::json &axis : json[i]) {
        if (axis.is_string())
          lists.back().push_back(axis.get<std::string>());
        else
          fail(indexed(place, i), "expected an axis name");
      }
    }
  return lists;
}

Result<Mesh> readMesh(const std::string &meshName, const nlohmann::json &json) {
  std::string place = "meshes." + meshName;
  JsonFields fields(json, place);
  Mesh mesh;
  mesh.name = meshName;
  const nlohmann::json &axes = fields.array("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    JsonFields axis(axes[i], indexed(place + ".axes", i));
    mesh.axes.push_back({axis.text("name"), axis.integer("size", 1, int64_t(1) << 24)});
    AUTOPAR_RETURN_IF_ERROR(axis.finish());
  }
  const nlohmann::json &devices = fields.array("devices");
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].is_number_integer())
      fields.fail(indexed("devices", i), "expected a device number");
    else
      mesh.devices.push_back(devices[i].get<int64_t>());
  }
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return mesh;
}

Result<PlanStage> readStage(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  PlanStage stage{fields.text("name"), fields.text("mesh"), fields.texts("ops")};
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return stage;
}

Status readParts(JsonFields &fields, PlanBelief &belief) {
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json &time = fields.has("time") ? fields.array("time") : none;
  for (size_t i = 0; i < time.size(); ++i) {
    JsonFields one(time[i], indexed("believed.time", i));
    belief.time.push_back({one.text("kind"), one.texts("axes"), one.number("us", 0, kMost),
                           one.integer("bytes", 0, kMostInteger, 0)});
    AUTOPAR_RETURN_IF_ERROR(one.finish());
  }
  const nlohmann::json &memory = fields.has("memory") ? fields.array("memory") : none;
  for (size_t i = 0; i < memory.size(); ++i) {
    JsonFields one(memory[i], indexed("believed.memory", i));
    auto bytes = [&](const char *key) { return one.integer(key, 0, kMostInteger, 0); };
    belief.memory.push_back({bytes("parameters"), bytes("optimizer"), bytes("gradients"),
                             bytes("activations"), bytes("workspace")});
    AUTOPAR_RETURN_IF_ERROR(one.finish());
  }
  return Status::ok();
}

Status readSharing(JsonFields &fields, PlanBelief &belief) {
  belief.memoryLimit = fields.integer("memory_limit", 0, kMostInteger, 0);
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json &axes = fields.has("axes") ? fields.array("axes") : none;
  for (size_t i = 0; i < axes.size(); ++i) {
    JsonFields one(axes[i], indexed("believed.axes", i));
    auto share = [&](const char *key) { return one.number(key, 0, 1, 0); };
    belief.axes.push_back(
        {one.text("axis"), share("samples"), share("positions"), share("experts"), share("model")});
    AUTOPAR_RETURN_IF_ERROR(one.finish());
  }
  const nlohmann::json &state = fields.has("state") ? fields.array("state") : none;
  for (size_t i = 0; i < state.size(); ++i) {
    JsonFields one(state[i], indexed("believed.state", i));
    StateParts parts;
    parts.parameters = one.integer("parameters", 0, kMostInteger, 0);
    parts.optimizer = one.integer("optimizer", 0, kMostInteger, 0);
    parts.parameterParts = one.number("parameter_parts", 1, kMost, 1);
    parts.optimizerParts = one.number("optimizer_parts", 1, kMost, 1);
    belief.state.push_back(parts);
    AUTOPAR_RETURN_IF_ERROR(one.finish());
  }
  return Status::ok();
}

Result<PlanBelief> readBelief(const nlohmann::json &json) {
  JsonFields fields(json, "believed");
  PlanBelief belief;
  belief.stepUs = fields.number("step_us", 0, kMost, 0);
  belief.lowerBoundUs = fields.number("lower_bound_us", 0, kMost, 0);
  belief.kernelsUs = fields.number("kernels_us", 0, kMost, 0);
  belief.inParts = fields.integer("operations_in_parts", 0, kMostInteger, 0);
  belief.recomputeUs = fields.number("recompute_us", 0, kMost, 0);
  belief.savedBytes = fields.integer("saved_bytes", -kMostInteger, kMostInteger, 0);
  belief.engine = fields.text("engine", "");
  belief.stoppedBy = fields.text("stopped_by", "");
  if (fields.has("peak_bytes"))
    for (const nlohmann::json &peak : fields.array("peak_bytes")) {
      if (peak.is_number_integer())
        belief.peakBytes.push_back(peak.get<int64_t>());
      else
        fields.fail("peak_bytes", "expected a list of integers");
    }
  if (fields.has("alternatives")) {
    const nlohmann::json &list = fields.array("alternatives");
    for (size_t i = 0; i < list.size(); ++i) {
      JsonFields one(list[i], indexed("believed.alternatives", i));
      belief.alternatives.push_back({one.text("change"), one.number("step_us", 0, kMost)});
      AUTOPAR_RETURN_IF_ERROR(one.finish());
    }
  }
  AUTOPAR_RETURN_IF_ERROR(readParts(fields, belief));
  AUTOPAR_RETURN_IF_ERROR(readSharing(fields, belief));
  // Absent keys were not fetched above; name them, so that only unknown ones are refused.
  for (const char *key : {"peak_bytes", "alternatives", "time", "memory", "axes", "state"})
    if (!fields.has(key))
      fields.texts(key);
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return belief;
}

Status readMaps(JsonFields &fields, Plan &plan) {
  for (const auto &[id, value] : fields.object("ops").items()) {
    Status status;
    plan.ops[id].factors = readAxisLists(value, "ops." + id, status);
    AUTOPAR_RETURN_IF_ERROR(status);
  }
  for (const auto &[id, value] : fields.object("shard").items()) {
    Status status;
    plan.values[id].dims = readAxisLists(value, "shard." + id, status);
    AUTOPAR_RETURN_IF_ERROR(status);
  }
  return Status::ok();
}

} // namespace

std::string Plan::toJson() const {
  Json stageList = Json::array();
  for (const PlanStage &stage : stages)
    stageList.push_back({{"name", stage.name}, {"mesh", stage.mesh}, {"ops", stage.ops}});
  Json time = {{"micro_batches", microBatches}};
  std::string text = "{\n  \"kind\": \"autopar.plan\", \"version\": 1,\n  \"cluster\": ";
  append(text, clusterName);
  text += ", \"devices\": " + std::to_string(deviceCount) + ",\n  \"meshes\": ";
  appendLines(
      text, meshes, [](const Mesh &mesh) -> auto & { return mesh.name; },
      [](const Mesh &mesh) -> auto & { return mesh; });
  text += ",\n  \"stages\": " + stageList.dump() + ",\n  \"time\": " + time.dump();
  append(text += ", \"schedule\": ", schedule);
  append(text += ", \"recompute\": ", recompute);
  if (expertParts > 1)
    text += ",\n  \"expert_parts\": " + std::to_string(expertParts);
  if (!offload.empty())
    append(text += ",\n  \"offload\": ", offload);
  if (!offloadActivations.empty())
    append(text += ",\n  \"offload_activations\": ", offloadActivations);
  appendLines(text += ",\n  \"ops\": ", ops);
  appendLines(text += ",\n  \"shard\": ", values);
  return text + ",\n  \"believed\": " + toJsonValue(believed).dump() + "\n}\n";
}

Result<Plan> Plan::fromJson(std::string_view text) {
  Result<nlohmann::json> parsed = parseJson(text);
  if (!parsed)
    return parsed.status();
  JsonFields fields(*parsed, "");
  fields.header("autopar.plan", 1);
  Plan plan;
  plan.clusterName = fields.text("cluster", "");
  plan.deviceCount = fields.integer("devices", 1, int64_t(1) << 24);
  plan.schedule = fields.text("schedule", "none");
  plan.recompute = fields.texts("recompute");
  plan.expertParts = fields.integer("expert_parts", 1, kMostInteger, 1);
  if (fields.has("offload"))
    plan.offload = fields.texts("offload");
  if (fields.has("offload_activations"))
    plan.offloadActivations = fields.texts("offload_activations");
  for (const auto &[key, value] : fields.object("meshes").items()) {
    Result<Mesh> mesh = readMesh(key, value);
    if (!mesh)
      return mesh.status();
    plan.meshes.push_back(mesh.take());
  }
  const nlohmann::json &stageList = fields.array("stages");
  for (size_t i = 0; i < stageList.size(); ++i) {
    Result<PlanStage> stage = readStage(stageList[i], indexed("stages", i));
    if (!stage)
      return stage.status();
    plan.stages.push_back(stage.take());
  }
  if (fields.has("time")) {
    const nlohmann::json &times = fields.object("time");
    AUTOPAR_RETURN_IF_ERROR(fields.status());
    JsonFields time(times, "time");
    plan.microBatches = time.integer("micro_batches", 1, kMostInteger, 1);
    AUTOPAR_RETURN_IF_ERROR(time.finish());
  }
  AUTOPAR_RETURN_IF_ERROR(readMaps(fields, plan));
  if (fields.has("believed")) {
    const nlohmann::json &believed = fields.object("believed");
    AUTOPAR_RETURN_IF_ERROR(fields.status());
    Result<PlanBelief> belief = readBelief(believed);
    if (!belief)
      return belief.status();
    plan.believed = belief.take();
  }
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  AUTOPAR_RETURN_IF_ERROR(plan.verify());
  return plan;
}

Result<Plan> Plan::load(const std::string &path) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<Plan> plan = fromJson(*text);
  if (!plan)
    return plan.status().at(path);
  return plan;
}

Status Plan::save(const std::string &path) const { return writeWholeFile(path, toJson()); }

} // namespace autopar
