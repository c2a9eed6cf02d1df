// SPDX-License-Identifier: Apache-2.0
// Inputs from words of the command line, outputs to files.
#include "Inputs.h"

#include "autopar/Artifact/Verify.h"
#include "autopar/Runtime/FloatElement.h"
#include "autopar/Runtime/Npy.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

namespace autopar::tools {
namespace {

void store(DataType dtype, double value, uint8_t *out) {
  if (isFloat(dtype))
    return runtime::storeFloat(dtype, value, out);
  auto whole = int64_t(value);
  std::memcpy(out, &whole, size_t(byteSize(dtype))); // little-endian
}

/// Integers are below `bound`.
double draw(DataType dtype, int64_t bound, std::mt19937_64 &generator) {
  std::normal_distribution<float> normal;
  return isFloat(dtype) ? double(normal(generator))
                        : double(generator() % uint64_t(dtype == DataType::Bool ? 2 : bound));
}

Result<runtime::NpyArray> makeInput(const runtime::TensorSpec &spec, const std::string &source) {
  if (source != "zeros" && source != "ones" && source != "random")
    return runtime::readNpy(source);
  runtime::NpyArray array{spec.dtype, spec.shape, std::vector<uint8_t>(size_t(spec.bytes), 0),
                          false};
  if (source == "zeros")
    return array;
  std::mt19937_64 generator(std::hash<std::string>()(spec.name));
  constexpr int64_t kMost = int64_t{1} << 53; // which doubles tell apart
  // Where nothing limits the values, what every integer type holds.
  int64_t bound = spec.limits ? std::clamp<int64_t>(spec.limits->most, 0, kMost - 1) + 1 : 100;
  for (int64_t at = 0; at < spec.bytes; at += byteSize(spec.dtype))
    store(spec.dtype, source == "ones" ? 1 : draw(spec.dtype, bound, generator),
          array.bytes.data() + at);
  return array;
}

} // namespace

Status setInputs(runtime::Session &session, const std::vector<std::string> &words) {
  std::set<std::string> given;
  for (const std::string &word : words) {
    size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      return {StatusCode::Usage, "--input '" + word + "' is not name=file.npy"};
    std::string wanted = word.substr(0, equals);
    if (!given.insert(wanted).second)
      return {StatusCode::Usage, "--input gives '" + wanted + "' twice"};
    const runtime::TensorSpec *found = nullptr;
    for (const runtime::TensorSpec &spec : session.inputs())
      if (spec.name == wanted)
        found = &spec;
    if (!found)
      return Status::badInput("there is no input '" + wanted + "'; the inputs are " +
                              describe(session.inputs()));
    auto array = makeInput(*found, word.substr(equals + 1));
    if (!array)
      return array.status().at("input " + wanted);
    if (array->isVoid && !isByteFloat(found->dtype))
      return Status::badInput("input " + wanted + ": the file holds " + runtime::kVoidBytes);
    // Void arrays carry floats that NumPy does not have, and its users often keep their bits in
    // unsigned integers.
    bool isBits = (found->dtype == DataType::BF16 && array->dtype == DataType::U16) ||
                  (isByteFloat(found->dtype) && array->dtype == DataType::U8);
    AUTOPAR_RETURN_IF_ERROR(session.setInput(wanted, isBits ? found->dtype : array->dtype,
                                             array->shape, array->bytes.data()));
  }
  return Status::ok();
}

/// Samples of a program that learns nothing from them come as they lie.
static runtime::DataOptions dataOptions(const runtime::Session &session,
                                        const RunOptions &options) {
  runtime::DataOptions data;
  data.paths = options.data;
  data.fields = options.fields;
  data.tokenType = options.tokenType == "u32" ? DataType::U32 : DataType::U16;
  data.isShuffled = !options.inOrder && !session.states().empty();
  data.seed = options.seed;
  return data;
}

Result<std::unique_ptr<runtime::DataSource>> openData(const runtime::Session &session,
                                                      const RunOptions &options) {
  if (options.data.empty() || options.steps == 0) {
    if (!options.fields.empty() && options.evalData.empty())
      return Status{StatusCode::Usage, "--fields speaks of the arrays of --data, which is missing"};
    return std::unique_ptr<runtime::DataSource>();
  }
  return runtime::DataSource::open(dataOptions(session, options), session.inputs());
}

Result<std::unique_ptr<runtime::DataSource>> openEvalData(const runtime::Session &session,
                                                          const RunOptions &options,
                                                          const runtime::DataSource *data) {
  if (options.evalData.empty()) {
    if (options.evalEvery > 0 || options.evalSteps > 0)
      return Status{StatusCode::Usage, "--eval-every and --eval-steps need --eval-data"};
    return std::unique_ptr<runtime::DataSource>();
  }
  if (!data && options.steps > 0)
    return Status{StatusCode::Usage, "--eval-data goes with --data, or with --steps 0"};
  if (session.evaluated().empty())
    return Status::badInput("--eval-data: this program has no loss that it can evaluate without "
                            "changing its state; compile the model with --train");
  runtime::DataOptions eval = dataOptions(session, options);
  eval.paths = options.evalData;
  eval.isShuffled = false;
  auto opened = runtime::DataSource::open(eval, session.inputs());
  if (opened && data && (*opened)->inputs() != data->inputs())
    return Status::badInput(RunOptions::namesOf(options.evalData) +
                            " does not feed the inputs that " + RunOptions::namesOf(options.data) +
                            " feeds; give both the same arrays, or --fields");
  return opened;
}

template <typename Which>
static Status setBatchOf(runtime::Session &session, const runtime::DataSource &data, Which which) {
  for (const std::string &input : data.inputs())
    AUTOPAR_RETURN_IF_ERROR(session.setInput(input, [&](const runtime::Box &box, void *out) {
      return data.read(input, which, box, out);
    }));
  return Status::ok();
}

Status setBatch(runtime::Session &session, const runtime::DataSource &data, int64_t step) {
  return setBatchOf(session, data, step);
}

Status setBatch(runtime::Session &session, const runtime::DataSource &data,
                runtime::SampleRange samples) {
  return setBatchOf(session, data, samples);
}

std::string outputFile(const std::string &folder, const std::string &name) {
  std::string file = name;
  for (char &c : file)
    if (c == '/' || c == '\0')
      c = '_';
  return folder + "/" + file + ".npy";
}

Status checkOutputFiles(const runtime::Session &session) {
  std::map<std::string, std::string> names;
  for (const runtime::TensorSpec &spec : session.outputs())
    if (auto [other, isNew] = names.try_emplace(outputFile("", spec.name), spec.name); !isNew)
      return Status::badInput("--output-dir: the outputs '" + other->second + "' and '" +
                              spec.name + "' would have one file; rename one of them in the model");
  return Status::ok();
}

Status writeOutputs(const runtime::Session &session, const std::string &folder) {
  for (const runtime::TensorSpec &spec : session.outputs()) {
    auto data = session.output(spec.name);
    if (!data)
      return data.status();
    std::vector<int64_t> shape = session.outputShape(spec);
    AUTOPAR_RETURN_IF_ERROR(
        runtime::writeNpy(outputFile(folder, spec.name), spec.dtype, shape, *data,
                          artifact::checkedBytes(shape, spec.dtype).value_or(0)));
  }
  return Status::ok();
}

} // namespace autopar::tools
