// SPDX-License-Identifier: Apache-2.0
// Degrees into constraints.
#include "autopar/Plan/Degrees.h"

#include "autopar/Base/InputFile.h"
#include "autopar/Cost/JsonFields.h"
#include "autopar/Plan/Schedule.h"

namespace autopar {

/// Whether ranks of data, and of tensor where experts are whole, can share the experts so.
static Status checkExperts(const Degrees &degrees) {
  std::string experts = "experts: is " + std::to_string(degrees.experts);
  std::string tensor = "the " + std::to_string(degrees.tensor) + " \"tensor\" ranks";
  std::string data = "the " + std::to_string(degrees.data) + " \"data\" ranks that share them";
  if (degrees.expertTensor != 1 && degrees.expertTensor != degrees.tensor)
    return Status::badInput("expert_tensor: is " + std::to_string(degrees.expertTensor) +
                            "; expected 1, for whole experts, or " + tensor);
  if (!degrees.foldsTensor())
    return degrees.data % degrees.experts == 0
               ? Status::ok()
               : Status::badInput(experts + ", which does not divide " + data);
  if (degrees.experts % degrees.tensor)
    return Status::badInput(experts + ", which is no multiple of " + tensor +
                            ": with an \"expert_tensor\" of 1 all of them share the experts");
  if (degrees.data % degrees.expertsOfData())
    return Status::badInput(experts + ": that is " + std::to_string(degrees.expertsOfData()) +
                            " for each of " + tensor + ", which does not divide " + data);
  return Status::ok();
}

Result<bool> Degrees::isIn(const std::string &path) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<nlohmann::json> json = parseJson(*text);
  if (!json)
    return json.status().at(path);
  auto kind = json->is_object() ? json->find("kind") : json->end();
  return json->is_object() && kind != json->end() && *kind == "degrees";
}

Result<Degrees> Degrees::fromJson(std::string_view text) {
  Result<nlohmann::json> json = parseJson(text);
  if (!json)
    return json.status();
  JsonFields fields(*json, "");
  fields.header("degrees", 1, /*mayLackVersion=*/true); // it is written by hand
  constexpr int64_t most = int64_t(1) << 24;
  Degrees degrees;
  degrees.data = fields.integer("data", 1, most, 1);
  degrees.experts = fields.integer("experts", 1, most, 1);
  degrees.context = fields.integer("context", 1, most, 1);
  degrees.tensor = fields.integer("tensor", 1, most, 1);
  degrees.expertTensor = fields.integer("expert_tensor", 1, most, degrees.tensor);
  degrees.pipeline = fields.integer("pipeline", 1, most, 1);
  degrees.virtualStages = fields.integer("virtual_stages", 1, most, 1);
  if (fields.has("micro_batch"))
    degrees.microBatch = fields.integer("micro_batch", 1, most);
  else
    degrees.microBatch = fields.integer("micro_batch", 0, 0, 0);
  degrees.schedule = fields.text("schedule", degrees.virtualStages > 1 ? "interleaved" : "1f1b");
  degrees.sequence = fields.truth("sequence", false);
  degrees.zero = fields.integer("zero", 0, 3, 0);
  degrees.recompute = fields.text("recompute", "");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  if (!isSchedule(degrees.schedule))
    return Status::badInput("schedule: there is no schedule '" + degrees.schedule +
                            "'; there are " + scheduleNames());
  if (const std::string &word = degrees.recompute;
      fields.has("recompute") && word != "none" && word != "full" && word != "auto")
    return Status::badInput("recompute: expected none, auto or full, found \"" + word + "\"");
  AUTOPAR_RETURN_IF_ERROR(checkExperts(degrees));
  if (degrees.virtualStages > 1 && degrees.pipeline == 1)
    return Status::badInput("virtual_stages: is " + std::to_string(degrees.virtualStages) +
                            ", which needs a \"pipeline\" of at least 2");
  if (degrees.sequence && degrees.tensor == 1)
    return Status::badInput(
        "sequence: is true, which needs \"tensor\" ranks to share the positions");
  if (degrees.zero > 0 && degrees.data == 1 && degrees.context == 1)
    return Status::badInput("zero: is " + std::to_string(degrees.zero) +
                            ", which needs \"data\" or \"context\" ranks that share the state");
  return degrees;
}

Result<Degrees> Degrees::load(const std::string &path) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<Degrees> degrees = fromJson(*text);
  if (!degrees)
    return degrees.status().at(path);
  degrees->source = path;
  return degrees;
}

Status Degrees::checkRanks(int64_t ranks) const {
  int64_t rest = ranks;
  bool fits = true;
  for (int64_t degree : {data, context, tensor, pipeline}) {
    fits = fits && rest % degree == 0;
    rest /= degree;
  }
  if (fits && rest == 1)
    return Status::ok();
  return Status::badInput("data, context, tensor, pipeline: " + std::to_string(data) + " x " +
                          std::to_string(context) + " x " + std::to_string(tensor) + " x " +
                          std::to_string(pipeline) + " ranks, but there are " +
                          std::to_string(ranks))
      .at(source);
}

Result<Constraints> Degrees::constraints(int64_t batch) const {
  if (batch % data)
    return Status::badInput("data: is " + std::to_string(data) +
                            ", which does not divide the batch of " + std::to_string(batch) +
                            " samples")
        .at(source);
  int64_t perGroup = batch / data;
  int64_t samples = microBatch ? microBatch : perGroup;
  if (perGroup % samples)
    return Status::badInput("micro_batch: is " + std::to_string(samples) +
                            ", which does not divide the " + std::to_string(perGroup) +
                            " samples that each of " + std::to_string(data) + " data ranks has")
        .at(source);
  Constraints result;
  auto demand = [&](const std::string &key, const std::string &value) {
    return result.demand(source, key, value);
  };
  AUTOPAR_RETURN_IF_ERROR(demand("stages", std::to_string(pipeline)));
  AUTOPAR_RETURN_IF_ERROR(demand("virtual-stages", std::to_string(virtualStages)));
  AUTOPAR_RETURN_IF_ERROR(demand("micro-batches", std::to_string(perGroup / samples)));
  if (pipeline > 1)
    AUTOPAR_RETURN_IF_ERROR(demand("schedule", schedule));
  // An axis of one rank says nothing; a mesh has at least one.
  int64_t shared = expertsOfData(), copies = data / shared;
  std::vector<MeshAxis> axes;
  if (copies > 1 || data * context * tensor == 1)
    axes.push_back({"data", copies});
  if (shared > 1)
    axes.push_back({"expert", shared});
  if (context > 1)
    axes.push_back({"context", context});
  if (tensor > 1)
    axes.push_back({"tensor", tensor});
  AUTOPAR_RETURN_IF_ERROR(demand("mesh", shapeText(axes)));
  if (copies > 1)
    AUTOPAR_RETURN_IF_ERROR(demand("batch-axis", "data"));
  if (experts > 1)
    AUTOPAR_RETURN_IF_ERROR(demand("expert-axis", !foldsTensor() ? "expert"
                                                  : shared > 1   ? "expert*tensor"
                                                                 : "tensor"));
  if (context > 1)
    AUTOPAR_RETURN_IF_ERROR(demand("context-axis", "context"));
  if (tensor > 1) {
    AUTOPAR_RETURN_IF_ERROR(demand("weight-axis", "tensor"));
    AUTOPAR_RETURN_IF_ERROR(demand("sequence", sequence ? "true" : "false"));
  }
  if (data > 1 || context > 1)
    AUTOPAR_RETURN_IF_ERROR(demand("zero", std::to_string(zero)));
  if (!recompute.empty())
    AUTOPAR_RETURN_IF_ERROR(demand("recompute", recompute));
  return result;
}

} // namespace autopar
