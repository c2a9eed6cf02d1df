// SPDX-License-Identifier: Apache-2.0
// Samples of data files, one after the other, as inputs of a program.
#include "autopar/Runtime/DataSource.h"

#include "../core/InputLimits.h"
#include "DataFile.h"
#include "RowCopy.h"
#include "SampleOrder.h"
#include "SyntheticData.h"

#include <algorithm>
#include <glob.h>
#include <optional>
#include <unistd.h>

namespace autopar::runtime {

struct DataSource::State {
  std::optional<SyntheticData> synthetic;
  std::vector<TensorSpec> fed;
  std::vector<DataFile> files;
  std::vector<int64_t> ends; ///< per file, the samples up to its end
  int64_t samples = 0, unusedTokens = 0;
  std::optional<SampleOrder> order;

  Status addFile(const std::string &path, const DataOptions &options,
                 const std::vector<Field> &fields, const std::vector<TensorSpec> &inputs);

  /// The file that holds a sample, and its number there.
  std::pair<const DataFile &, int64_t> placeOf(int64_t sample) const {
    size_t file = size_t(std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin());
    return {files[file], file ? sample - ends[file - 1] : sample};
  }
  /// Which input it is; as many as there are where nothing feeds it.
  size_t indexOf(const std::string &input) const {
    return size_t(std::find_if(fed.begin(), fed.end(),
                               [&](const TensorSpec &spec) { return spec.name == input; }) -
                  fed.begin());
  }
};

/// All files of a run feed the same inputs.
Status DataSource::State::addFile(const std::string &path, const DataOptions &options,
                                  const std::vector<Field> &fields,
                                  const std::vector<TensorSpec> &inputs) {
  auto file = DataFile::open(path, options.tokenType, fields, inputs);
  if (!file)
    return file.status();
  std::vector<TensorSpec> own;
  for (const Feed &feed : file->feeds())
    own.push_back(feed.input);
  auto isSame = [](const TensorSpec &a, const TensorSpec &b) { return a.name == b.name; };
  if (!files.empty() && !std::equal(own.begin(), own.end(), fed.begin(), fed.end(), isSame))
    return Status::badInput(path + " does not feed the inputs that " + files.front().path() +
                            " feeds; give both the same arrays, or --fields");
  fed = std::move(own);
  samples += file->samples();
  unusedTokens += file->unusedTokens();
  files.push_back(file.take());
  ends.push_back(samples);
  return Status::ok();
}

/// The names that a pattern stands for, in alphabetical order; a file of that very name is itself.
static Result<std::vector<std::string>> expand(const std::string &pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos || access(pattern.c_str(), F_OK) == 0)
    return std::vector<std::string>{pattern};
  glob_t found{};
  int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH)
    return Status::noInput("cannot look for " + pattern);
  if (names.empty())
    return Status::noInput("no file is called " + pattern);
  return names;
}

DataSource::DataSource(std::unique_ptr<State> state) : state(std::move(state)) {}
DataSource::~DataSource() = default;

Result<std::unique_ptr<DataSource>> DataSource::open(const DataOptions &options,
                                                     const std::vector<TensorSpec> &inputs) {
  auto state = std::make_unique<State>();
  if (options.paths.size() == 1 && SyntheticData::isMeant(options.paths[0])) {
    const std::string &text = options.paths[0];
    auto synthetic = SyntheticData::parse(text, options.seed);
    if (!synthetic)
      return synthetic.status();
    state->synthetic = *synthetic;
    for (const TensorSpec &input : inputs) {
      if (input.shape.empty())
        return Status::badInput(text + ": input " + input.name +
                                " is a scalar and has no samples: give it with --input, and "
                                "arrays of the others as --data");
      if (Status status = synthetic->checkVocab(input); !status.isOk())
        return status.at(text);
    }
    state->fed = inputs;
    state->samples = SyntheticData::kSamples;
  } else {
    std::vector<Field> fields;
    if (!options.fields.empty()) {
      auto parsed = parseFields(options.fields);
      if (!parsed)
        return parsed.status();
      fields = parsed.take();
    }
    for (const std::string &pattern : options.paths) {
      if (SyntheticData::isMeant(pattern))
        return Status{StatusCode::Usage, "made-up data stands alone: \"" + pattern +
                                             "\" is one of " +
                                             std::to_string(options.paths.size()) + " files"};
      auto names = expand(pattern);
      if (!names)
        return names.status();
      for (const std::string &path : *names)
        AUTOPAR_RETURN_IF_ERROR(state->addFile(path, options, fields, inputs));
    }
  }
  state->order.emplace(state->samples, options.isShuffled, options.seed);
  return std::unique_ptr<DataSource>(new DataSource(std::move(state)));
}

std::vector<SampleRange> wholeBatches(int64_t samples, int64_t batch) {
  std::vector<SampleRange> ranges;
  for (int64_t first = 0, count = batch; first < samples; first += count) {
    while (first + count > samples || batch % count != 0)
      --count;
    ranges.push_back({first, count});
  }
  return ranges;
}

std::vector<std::string> DataSource::inputs() const {
  std::vector<std::string> names;
  for (const TensorSpec &input : state->fed)
    names.push_back(input.name);
  return names;
}

int64_t DataSource::samples() const { return state->samples; }
bool DataSource::isSynthetic() const { return state->synthetic.has_value(); }
int64_t DataSource::unusedTokens() const { return state->unusedTokens; }

Status DataSource::checkValues(int64_t first, int64_t count,
                               std::pair<int32_t, int32_t> share) const {
  for (size_t index = 0; index < state->fed.size(); ++index) {
    const TensorSpec &input = state->fed[index];
    if (!input.limits || state->synthetic)
      continue;
    std::vector<int64_t> row(input.shape.begin() + 1, input.shape.end());
    int64_t rowElements = 1;
    for (int64_t extent : row)
      rowElements *= extent;
    // Once around, every sample is read; then they are looked at as they lie.
    int64_t batch = input.shape[0], positions = std::min(count * batch, state->samples);
    bool isAll = positions == state->samples;
    int64_t begin = positions * share.first / share.second,
            end = positions * (share.first + 1) / share.second;
    for (int64_t position = begin; position < end; ++position) {
      auto [file, sample] =
          state->placeOf(isAll ? position : state->order->at(first * batch + position));
      const Feed &feed = file.feeds()[index];
      auto outside =
          firstOutside(input.limits, feed.array.dtype, file.rowOf(feed, sample), rowElements);
      if (outside)
        return Status::badInput(file.path() + ": field " + input.name + ", sample " +
                                std::to_string(sample) + " at " + indexText(outside->place, row) +
                                ": " + outside->text);
    }
  }
  return Status::ok();
}

Status DataSource::read(const std::string &input, int64_t step, const Box &box, void *out) const {
  size_t index = state->indexOf(input);
  int64_t batch = index < state->fed.size() ? state->fed[index].shape[0] : 0;
  return read(input, {step * batch, batch}, box, out);
}

Status DataSource::read(const std::string &input, SampleRange samples, const Box &box,
                        void *out) const {
  size_t index = state->indexOf(input);
  if (index == state->fed.size())
    return Status::internal("no field feeds input '" + input + "'");
  const TensorSpec &spec = state->fed[index];
  int64_t rowElements = 1;
  for (size_t d = 1; d < box.extent.size(); ++d)
    rowElements *= box.extent[d];
  auto *row = static_cast<uint8_t *>(out);
  for (int64_t r = 0; r < box.extent[0]; ++r) {
    int64_t sample = state->order->at(samples.first + (box.offset[0] + r) % samples.count);
    if (state->synthetic) {
      state->synthetic->fillRowBox(spec, sample, box, row);
    } else {
      auto [file, own] = state->placeOf(sample);
      const Feed &feed = file.feeds()[index];
      copyRowBox(file.rowOf(feed, own), feed.array.dtype, feed.rowShape, box.offset, box.extent, 1,
                 spec.dtype, row);
    }
    row += rowElements * byteSize(spec.dtype);
  }
  return Status::ok();
}

} // namespace autopar::runtime
