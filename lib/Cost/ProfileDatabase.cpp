// SPDX-License-Identifier: Apache-2.0
// Reads profile databases: a grid without holes, in which sizes go together.
#include "autopar/Cost/ProfileDatabase.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "autopar/Base/InputFile.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

constexpr double kMostUs = 1e15;
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 4;
/// By how much sizes of one value may differ between rows: measured sizes are rounded.
constexpr double kTolerance = 0.01;

std::string placeIn(const std::string &list, size_t i) {
  return list + "[" + std::to_string(i) + "]";
}

bool isNear(double a, double b) { return std::abs(a - b) <= kTolerance * std::max(a, b); }

/// Positive integers, ascending.
Result<std::vector<int64_t>> readCounts(JsonFields &fields, const char *key) {
  std::vector<int64_t> counts;
  const nlohmann::json &list = fields.array(key);
  for (size_t i = 0; i < list.size(); ++i) {
    std::string place = fields.placeOf(placeIn(key, i));
    if (!list[i].is_number_integer() || list[i].get<int64_t>() < 1 ||
        list[i].get<int64_t>() > int64_t(1) << 30)
      return Status::badInput(place + ": expected a positive integer, found " + list[i].dump());
    if (!counts.empty() && list[i].get<int64_t>() <= counts.back())
      return Status::badInput(place + ": expected more than the number before");
    counts.push_back(list[i].get<int64_t>());
  }
  if (list.is_array() && counts.empty())
    return Status::badInput(fields.placeOf(key) + ": expected at least one");
  return counts;
}

class Reader {
public:
  Reader(const nlohmann::json &json, ProfileFallback fallback) : json(json), fallback(fallback) {}

  Result<ProfileDatabase> run() {
    JsonFields fields(json, "");
    fields.header("autopar.profile", 1);
    database.device = fields.text("device", "");
    database.dataType = dataType(fields, "dtype");
    database.weightType = dataType(fields, "weight_dtype");
    database.dimensions = fields.texts("dimensions");
    static const nlohmann::json none = nlohmann::json::array();
    auto list = [&](const char *key) -> const nlohmann::json & {
      return fields.has(key) ? fields.array(key) : none;
    };
    const nlohmann::json &instructions = list("instructions");
    bool isOfMachine = fields.has("instructions") && !fields.has("ops");
    if (fields.has("instructions") && fields.has("ops"))
      fields.fail("instructions", "a file holds operations (ops) or instructions, not both");
    Result<std::vector<int64_t>> one = std::vector<int64_t>{1};
    auto batches = isOfMachine ? one : readCounts(fields, "batches");
    auto degrees = isOfMachine ? one : readCounts(fields, "degrees");
    const nlohmann::json &operations = isOfMachine ? none : fields.array("ops");
    const nlohmann::json &collectives = list("collectives");
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    if (!batches || !degrees)
      return batches ? degrees.status() : batches.status();
    database.batches = batches.take();
    database.degrees = degrees.take();
    if (database.degrees.front() != 1)
      return Status::badInput("degrees[0]: expected 1, the operation on one rank, found " +
                              std::to_string(database.degrees.front()));
    for (size_t i = 0; i < database.dimensions.size(); ++i)
      if (const std::string &word = database.dimensions[i];
          word.empty() || word == "whole" || word == "partial" ||
          std::count(database.dimensions.begin(), database.dimensions.end(), word) > 1)
        return Status::badInput(placeIn("dimensions", i) +
                                ": expected a name of its own, not whole or partial");
    if (isOfMachine && instructions.empty())
      return Status::badInput("instructions: expected at least one");
    if (operations.empty() && !isOfMachine)
      return Status::badInput("ops: expected at least one");
    for (size_t i = 0; i < operations.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(readOperation(operations[i], placeIn("ops", i)));
    Result<std::vector<MeasuredCollective>> measured =
        readMeasuredCollectives(collectives, "collectives");
    if (!measured)
      return measured.status();
    database.collectives = measured.take();
    auto times = readMeasuredOperations(instructions, "instructions");
    if (!times)
      return times.status();
    database.instructions = times.take();
    return std::move(database);
  }

private:
  static DataType dataType(JsonFields &fields, const char *key) {
    std::string word = fields.text(key, "f32");
    std::optional<DataType> found = dataTypeFromName(word);
    if (found && (*found == DataType::F32 || *found == DataType::F16 || *found == DataType::BF16))
      return *found;
    fields.fail(key, "expected f32, f16 or bf16, found \"" + word + "\"");
    return DataType::F32;
  }

  Status readOperation(const nlohmann::json &value, const std::string &place) {
    JsonFields fields(value, place);
    ProfiledOperation operation;
    operation.key = fields.text("key");
    operation.givesLoss = fields.truth("loss", false);
    int64_t inputs = fields.integer("inputs", 1, 64, 1);
    int64_t outputs = fields.integer("outputs", 1, 64, 1);
    static const nlohmann::json none = nlohmann::json::array();
    const nlohmann::json &choices = fields.has("choices") ? fields.array("choices") : none;
    const nlohmann::json &rows = fields.array("rows");
    if (operation.givesLoss && outputs != 1)
      fields.fail("outputs", "an operation that gives the loss has no other output");
    if (operation.key.empty())
      fields.fail("key", "expected a name");
    if (database.find(operation.key))
      fields.fail("key", "\"" + operation.key + "\" stands in the file twice");
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    operation.inputBytes.resize(inputs);
    operation.outputBytes.resize(outputs);
    for (size_t i = 0; i < choices.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(readChoice(choices[i], placeIn(place + ".choices", i), operation));
    for (size_t i = 0; i < rows.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(readRow(rows[i], placeIn(place + ".rows", i), operation));
    AUTOPAR_RETURN_IF_ERROR(checkSizes(place, operation));
    AUTOPAR_RETURN_IF_ERROR(fillGrid(place, operation));
    database.operations.push_back(std::move(operation));
    return Status::ok();
  }

  /// "whole", "partial" or a dimension for each value.
  Result<std::vector<int64_t>> readLayouts(JsonFields &fields, const char *key, size_t count,
                                           bool mayBePartial) {
    std::vector<int64_t> layouts;
    fields.array(key);
    std::vector<std::string> words = fields.texts(key);
    for (size_t i = 0; i < words.size(); ++i) {
      auto found = std::find(database.dimensions.begin(), database.dimensions.end(), words[i]);
      if (words[i] == "whole") {
        layouts.push_back(kWhole);
      } else if (words[i] == "partial" && mayBePartial) {
        layouts.push_back(kPartial);
      } else if (found != database.dimensions.end()) {
        layouts.push_back(found - database.dimensions.begin());
      } else {
        return Status::badInput(fields.placeOf(placeIn(key, i)) + ": expected whole, " +
                                (mayBePartial ? "partial, " : "") +
                                "or a name in dimensions, found \"" + words[i] + "\"");
      }
    }
    if (layouts.size() != count)
      return Status::badInput(fields.placeOf(key) + ": expected " + std::to_string(count) +
                              " words, found " + std::to_string(layouts.size()));
    return layouts;
  }

  Status readChoice(const nlohmann::json &value, const std::string &place,
                    ProfiledOperation &operation) {
    JsonFields fields(value, place);
    ProfileChoice choice;
    choice.name = fields.text("name");
    choice.collectivesIncluded = fields.truth("collectives_included", false);
    std::string weight = fields.text("weight", "split");
    if (weight != "split" && weight != "whole")
      fields.fail("weight", "expected split or whole, found \"" + weight + "\"");
    choice.splitsWeight = weight == "split";
    Result<std::vector<int64_t>> inputs =
        readLayouts(fields, "inputs", operation.inputBytes.size(), false);
    Result<std::vector<int64_t>> outputs =
        readLayouts(fields, "outputs", operation.outputBytes.size(), !choice.collectivesIncluded);
    choice.degrees = database.degrees;
    if (fields.has("degrees")) {
      Result<std::vector<int64_t>> degrees = readCounts(fields, "degrees");
      if (!degrees)
        return degrees.status();
      for (int64_t degree : *degrees)
        if (!std::count(database.degrees.begin(), database.degrees.end(), degree))
          fields.fail("degrees", std::to_string(degree) + " is none of the file's degrees");
      choice.degrees = degrees.take();
    }
    std::erase(choice.degrees, 1);
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    if (!inputs || !outputs)
      return inputs ? outputs.status() : inputs.status();
    choice.inputs = inputs.take();
    choice.outputs = outputs.take();
    if (operation.givesLoss && choice.outputs.front() >= 0)
      return Status::badInput(place + ".outputs[0]: the loss cannot be split");
    for (const ProfileChoice &other : operation.choices)
      if (other.name == choice.name)
        return Status::badInput(place + ".name: \"" + choice.name + "\" stands here twice");
    operation.choices.push_back(std::move(choice));
    return Status::ok();
  }

  /// One number, or a list where there are several values.
  static std::vector<int64_t> readSizes(JsonFields &fields, const char *key,
                                        const nlohmann::json &row, size_t count) {
    if (count == 1)
      return {fields.integer(key, 0, kMostBytes)};
    std::vector<int64_t> sizes;
    const nlohmann::json &list = fields.array(key);
    for (size_t i = 0; i < list.size(); ++i) {
      bool isSize = list[i].is_number_integer() && list[i].get<int64_t>() >= 0 &&
                    list[i].get<int64_t>() <= kMostBytes;
      if (!isSize)
        fields.fail(placeIn(key, i), "expected bytes, found " + list[i].dump());
      sizes.push_back(isSize ? list[i].get<int64_t>() : 0);
    }
    if (row.contains(key) && sizes.size() != count)
      fields.fail(key, "expected " + std::to_string(count) + " sizes, found " +
                           std::to_string(sizes.size()));
    sizes.resize(count);
    return sizes;
  }

  Status readRow(const nlohmann::json &value, const std::string &place,
                 ProfiledOperation &operation) {
    JsonFields fields(value, place);
    ProfileRow row;
    row.batch = fields.integer("batch", 1, int64_t(1) << 30);
    row.degree = fields.integer("degree", 1, int64_t(1) << 30, 1);
    std::string word = fields.text("choice", "");
    row.forwardUs = fields.number("forward_us", 0, kMostUs);
    row.backwardUs = fields.number("backward_us", 0, kMostUs, 0);
    row.weightGradientUs = fields.number("weight_gradient_us", 0, kMostUs, 0);
    row.bytesIn = readSizes(fields, "bytes_in", value, operation.inputBytes.size());
    row.bytesOut = readSizes(fields, "bytes_out", value, operation.outputBytes.size());
    row.weightBytes = fields.integer("weight_bytes", 0, kMostBytes, 0);
    row.savedBytes = fields.integer("saved_bytes", 0, kMostBytes, 0);
    row.workspaceBytes = fields.integer("workspace_bytes", 0, kMostBytes, 0);
    row.backwardWorkspaceBytes =
        fields.integer("backward_workspace_bytes", 0, kMostBytes, row.workspaceBytes);
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    if (row.weightGradientUs > row.backwardUs)
      return Status::badInput(place + ".weight_gradient_us: is part of backward_us, and more");
    auto isIn = [](const std::vector<int64_t> &list, int64_t number) {
      return std::count(list.begin(), list.end(), number) > 0;
    };
    if (!isIn(database.batches, row.batch))
      return Status::badInput(place + ".batch: " + std::to_string(row.batch) +
                              " is none of the file's batches");
    if (row.degree == 1 && !word.empty())
      return Status::badInput(place + ".choice: nothing is split at degree 1; expected no choice");
    if (row.degree > 1) {
      auto choice = std::find_if(operation.choices.begin(), operation.choices.end(),
                                 [&](const ProfileChoice &one) { return one.name == word; });
      if (choice == operation.choices.end())
        return Status::badInput(
            place + ".choice: expected one of the operation's choices, found \"" + word + "\"");
      if (!isIn(choice->degrees, row.degree))
        return Status::badInput(place + ".degree: " + std::to_string(row.degree) +
                                " is none of the degrees of \"" + word + "\"");
      row.choice = choice - operation.choices.begin();
    }
    if (operation.find(row.batch, row.degree, row.choice))
      return Status::badInput(place + ": " + nameOf(operation, row.batch, row.degree, row.choice) +
                              " stands here twice");
    operation.rows.push_back(std::move(row));
    return Status::ok();
  }

  static std::string nameOf(const ProfiledOperation &operation, int64_t batch, int64_t degree,
                            int64_t choice) {
    std::string text = "\"" + operation.key + "\" with batch " + std::to_string(batch) +
                       ", degree " + std::to_string(degree);
    return choice < 0 ? text : text + ", choice \"" + operation.choices[choice].name + "\"";
  }

  /// Every row must tell of the same whole values.
  Status checkSizes(const std::string &place, ProfiledOperation &operation) {
    if (operation.rows.empty())
      return Status::badInput(place + ".rows: expected at least one");
    for (size_t i = 0; i < operation.rows.size(); ++i) {
      const ProfileRow &row = operation.rows[i];
      std::string here = placeIn(place + ".rows", i);
      const ProfileChoice *choice = row.choice < 0 ? nullptr : &operation.choices[row.choice];
      auto check = [&](const char *key, int64_t local, bool isSplit, int64_t batch,
                       int64_t &whole) {
        double found = static_cast<double>(local) * static_cast<double>(isSplit ? row.degree : 1) /
                       static_cast<double>(batch);
        if (i == 0)
          whole = std::llround(found);
        if (isNear(found, static_cast<double>(whole)))
          return Status::ok();
        return Status::badInput(here + "." + key + ": " + std::to_string(local) +
                                " does not go with " + placeIn(place + ".rows", 0) + ", by which " +
                                std::to_string(whole * batch / (isSplit ? row.degree : 1)) +
                                " are expected here");
      };
      for (size_t k = 0; k < row.bytesIn.size(); ++k)
        AUTOPAR_RETURN_IF_ERROR(check("bytes_in", row.bytesIn[k], choice && choice->inputs[k] >= 0,
                                      row.batch, operation.inputBytes[k]));
      for (size_t k = 0; k < row.bytesOut.size() && !operation.givesLoss; ++k)
        AUTOPAR_RETURN_IF_ERROR(check("bytes_out", row.bytesOut[k],
                                      choice && choice->outputs[k] >= 0, row.batch,
                                      operation.outputBytes[k]));
      AUTOPAR_RETURN_IF_ERROR(check("weight_bytes", row.weightBytes, choice && choice->splitsWeight,
                                    1, operation.weightBytes));
    }
    return Status::ok();
  }

  /// The row between two measured batches.
  static ProfileRow between(const ProfileRow &low, const ProfileRow &high, int64_t batch) {
    double part =
        static_cast<double>(batch - low.batch) / static_cast<double>(high.batch - low.batch);
    auto mix = [&](auto a, auto b) {
      return static_cast<decltype(a)>(static_cast<double>(a) +
                                      part * (static_cast<double>(b) - static_cast<double>(a)));
    };
    ProfileRow row = low;
    row.batch = batch;
    row.forwardUs = mix(low.forwardUs, high.forwardUs);
    row.backwardUs = mix(low.backwardUs, high.backwardUs);
    row.weightGradientUs = mix(low.weightGradientUs, high.weightGradientUs);
    for (size_t k = 0; k < row.bytesIn.size(); ++k)
      row.bytesIn[k] = mix(low.bytesIn[k], high.bytesIn[k]);
    for (size_t k = 0; k < row.bytesOut.size(); ++k)
      row.bytesOut[k] = mix(low.bytesOut[k], high.bytesOut[k]);
    row.savedBytes = mix(low.savedBytes, high.savedBytes);
    row.workspaceBytes = mix(low.workspaceBytes, high.workspaceBytes);
    row.backwardWorkspaceBytes = mix(low.backwardWorkspaceBytes, high.backwardWorkspaceBytes);
    return row;
  }

  /// Rows in the order of the grid, all of them.
  Status fillGrid(const std::string &place, ProfiledOperation &operation) const {
    std::vector<ProfileRow> filled;
    for (int64_t batch : database.batches)
      for (int64_t degree : database.degrees)
        for (int64_t choice = degree == 1 ? -1 : 0;
             choice < (degree == 1 ? 0 : static_cast<int64_t>(operation.choices.size()));
             ++choice) {
          if (choice >= 0 && !std::count(operation.choices[choice].degrees.begin(),
                                         operation.choices[choice].degrees.end(), degree))
            continue;
          if (const ProfileRow *row = operation.find(batch, degree, choice)) {
            filled.push_back(*row);
            continue;
          }
          const ProfileRow *low = nullptr, *high = nullptr;
          for (const ProfileRow &row : operation.rows) {
            if (row.degree != degree || row.choice != choice)
              continue;
            if (row.batch < batch && (!low || row.batch > low->batch))
              low = &row;
            if (row.batch > batch && (!high || row.batch < high->batch))
              high = &row;
          }
          std::string hole = place + ".rows: no row for " +
                             nameOf(operation, batch, degree, choice) + ": measure it";
          if (!low || !high)
            return Status::badInput(hole +
                                    ", or leave the batch, degree or choice out of the file");
          if (fallback == ProfileFallback::None)
            return Status::badInput(hole +
                                    ", or say --profile-fallback interpolate to take it "
                                    "from batches " +
                                    std::to_string(low->batch) + " and " +
                                    std::to_string(high->batch));
          filled.push_back(between(*low, *high, batch));
        }
    operation.rows = std::move(filled);
    return Status::ok();
  }

  const nlohmann::json &json;
  ProfileFallback fallback;
  ProfileDatabase database;
};

} // namespace

const ProfileRow *ProfiledOperation::find(int64_t batch, int64_t degree, int64_t choice) const {
  for (const ProfileRow &row : rows)
    if (row.batch == batch && row.degree == degree && row.choice == choice)
      return &row;
  return nullptr;
}

const ProfiledOperation *ProfileDatabase::find(std::string_view key) const {
  for (const ProfiledOperation &operation : operations)
    if (operation.key == key)
      return &operation;
  return nullptr;
}

int64_t ProfileDatabase::commonDegree() const {
  int64_t common = 1;
  for (int64_t degree : degrees)
    common = std::lcm(common, degree);
  return common;
}

Result<ProfileDatabase> ProfileDatabase::fromJson(std::string_view text, ProfileFallback fallback) {
  Result<nlohmann::json> parsed = parseJson(text);
  if (!parsed)
    return parsed.status();
  return Reader(*parsed, fallback).run();
}

Result<ProfileDatabase> ProfileDatabase::load(const std::string &path, ProfileFallback fallback) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<ProfileDatabase> database = fromJson(*text, fallback);
  if (!database)
    return database.status().at(path);
  return database;
}

Status believeProfile(Cluster &cluster, const ProfileDatabase &database, ProfileFallback fallback) {
  for (DeviceType &type : cluster.deviceTypes)
    if (!database.instructions.empty())
      type.measured = {database.instructions, fallback == ProfileFallback::Analytical};
  if (database.collectives.empty())
    return Status::ok();
  cluster.collectives = database.collectives;
  return fallback == ProfileFallback::None ? cluster.checkCollectives() : Status::ok();
}

} // namespace autopar
