// SPDX-License-Identifier: Apache-2.0
// Fields of a data file as inputs of a program.
#include "autopar/Runtime/DataSource.h"

#include "../core/InputLimits.h"
#include "ArrayFile.h"
#include "Fields.h"
#include "RowCopy.h"
#include "SampleOrder.h"
#include "SyntheticData.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace autopar::runtime {
namespace {

/// Where the rows of one input come from.
struct Feed {
  TensorSpec input;
  NpyView array;
  std::vector<int64_t> rowShape; ///< the input's shape; its first extent is not the row's
  int64_t stride = 0;            ///< elements from one sample to the next
  int64_t start = 0;             ///< elements in front of the row
  int64_t samples = 0;
};

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? "," : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string arrayText(const ArrayFile &file) {
  std::string text;
  for (const auto &[arrayName, view] : file.arrays)
    text += (text.empty() ? "" : ", ") + arrayName + ": " + std::string(name(view.dtype)) + " " +
            shapeText(view.shape);
  return text.empty() ? "no arrays" : text;
}

} // namespace

struct DataSource::State {
  ArrayFile file;
  std::optional<SyntheticData> synthetic;
  std::vector<Feed> feeds;
  int64_t samples = 0, unusedTokens = 0;
  std::optional<SampleOrder> order;

  Status addFields(const std::string &path, std::vector<Field> fields,
                   const std::vector<TensorSpec> &inputs);
  Status addField(const Field &field, const std::vector<TensorSpec> &inputs);
  Status placeRow(const Field &field, Feed &feed);
  Status placeWindows(const std::vector<Field> &fields);
  const uint8_t *rowOf(const Feed &feed, int64_t sample) const {
    return feed.array.data + (sample * feed.stride + feed.start) * byteSize(feed.array.dtype);
  }
  const Feed *feedOf(const std::string &input) const {
    for (const Feed &feed : feeds)
      if (feed.input.name == input)
        return &feed;
    return nullptr;
  }
};

/// Without --fields: arrays with the names of inputs, or the only array for the only input.
static std::vector<Field> fieldsByName(const ArrayFile &file,
                                       const std::vector<TensorSpec> &inputs) {
  std::vector<Field> fields;
  for (const TensorSpec &input : inputs)
    if (file.arrays.count(input.name))
      fields.push_back({input.name, input.name});
  if (fields.empty() && inputs.size() == 1 && file.arrays.count("array"))
    fields.push_back({inputs.front().name, "array"});
  return fields;
}

Status DataSource::State::addFields(const std::string &path, std::vector<Field> fields,
                                    const std::vector<TensorSpec> &inputs) {
  if (fields.empty())
    fields = fieldsByName(file, inputs);
  if (fields.empty())
    return Status::badInput(path + " has " + arrayText(file) + "; the inputs are " +
                            describe(inputs) +
                            "; say with --fields which array feeds which input, for example "
                            "\"input_ids=tokens[:-1], labels=tokens[1:]\"");
  for (const Field &field : fields)
    if (Status status = addField(field, inputs); !status.isOk())
      return status.at(path + ": field " + field.input);
  if (Status status = placeWindows(fields); !status.isOk())
    return status.at(path);
  samples = feeds.front().samples;
  for (const Feed &feed : feeds)
    if (feed.samples != samples)
      return Status::badInput(path + ": " + feeds.front().input.name + " has " +
                              std::to_string(samples) + " samples, " + feed.input.name + " has " +
                              std::to_string(feed.samples));
  return Status::ok();
}

Status DataSource::State::addField(const Field &field, const std::vector<TensorSpec> &inputs) {
  auto input = std::find_if(inputs.begin(), inputs.end(),
                            [&](const TensorSpec &spec) { return spec.name == field.input; });
  if (input == inputs.end())
    return Status::badInput("there is no such input; the inputs are " + describe(inputs));
  if (feedOf(field.input))
    return Status::badInput("it is fed twice");
  auto array = file.arrays.find(field.array);
  if (array == file.arrays.end())
    return Status::badInput("there is no array '" + field.array + "'; the file has " +
                            arrayText(file));
  Feed feed{*input, array->second, input->shape, 0, 0, 0};
  if (feed.input.shape.empty())
    return Status::badInput("a scalar has no samples; give it with --input");
  if (feed.array.isVoid)
    return Status::badInput("array '" + field.array + "' holds " + kVoidBytes);
  if (!widens(feed.array.dtype, feed.input.dtype))
    return Status::badInput("array '" + field.array + "' holds " +
                            std::string(name(feed.array.dtype)) + ", the input wants " +
                            std::string(name(feed.input.dtype)));
  if (field.isWindow) {
    if (feed.array.shape.size() != 1 || feed.input.shape.size() != 2)
      return Status::badInput(
          "a part [a:b] is taken from a stream of one dimension for an input of "
          "two, [batch, length]; array '" +
          field.array + "' has shape " + shapeText(feed.array.shape) + ", the input " +
          shapeText(feed.input.shape));
  } else {
    AUTOPAR_RETURN_IF_ERROR(placeRow(field, feed));
  }
  feeds.push_back(std::move(feed));
  return Status::ok();
}

Status DataSource::State::placeRow(const Field &field, Feed &feed) {
  const std::vector<int64_t> &has = feed.array.shape, &wants = feed.input.shape;
  if (has.size() != wants.size() || !std::equal(has.begin() + 1, has.end(), wants.begin() + 1))
    return Status::badInput(
        "array '" + field.array + "' has shape " + shapeText(has) + ", expected [samples" +
        shapeText(wants).substr(1 + std::to_string(wants[0]).size()) +
        (has.size() == 1 ? "; take windows with " + field.array + "[a:b]" : ""));
  feed.stride = 1;
  for (size_t d = 1; d < has.size(); ++d)
    feed.stride *= has[d];
  feed.samples = has[0];
  if (feed.samples == 0)
    return Status::badInput("array '" + field.array + "' has no samples");
  return Status::ok();
}

/// All parts of windows look at the same window; the longest part is its stride.
Status DataSource::State::placeWindows(const std::vector<Field> &fields) {
  int64_t window = 0, stride = 0;
  const Feed *first = nullptr;
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].isWindow) {
      int64_t length = feeds[i].input.shape[1];
      int64_t own = fields[i].dropFirst + length + fields[i].dropLast;
      if (first && own != window)
        return Status::badInput("the part of " + feeds[i].input.name + " means windows of " +
                                std::to_string(own) + " tokens, that of " + first->input.name +
                                " windows of " + std::to_string(window));
      first = &feeds[i];
      window = own;
      stride = std::max(stride, length);
    }
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].isWindow) {
      Feed &feed = feeds[i];
      int64_t tokens = feed.array.shape[0];
      if (tokens < window)
        return Status::badInput("too short: " + std::to_string(tokens) +
                                " tokens, one sample takes " + std::to_string(window));
      feed.stride = stride;
      feed.start = fields[i].dropFirst;
      feed.samples = (tokens - window) / stride + 1;
      unusedTokens = tokens - (feed.samples - 1) * stride - window;
    }
  return Status::ok();
}

DataSource::DataSource(std::unique_ptr<State> state) : state(std::move(state)) {}
DataSource::~DataSource() = default;

Result<std::unique_ptr<DataSource>> DataSource::open(const DataOptions &options,
                                                     const std::vector<TensorSpec> &inputs) {
  auto state = std::make_unique<State>();
  if (SyntheticData::isMeant(options.path)) {
    auto synthetic = SyntheticData::parse(options.path, options.seed);
    if (!synthetic)
      return synthetic.status();
    state->synthetic = *synthetic;
    for (const TensorSpec &input : inputs)
      if (Status status = synthetic->checkVocab(input); !status.isOk())
        return status.at(options.path);
    for (const TensorSpec &input : inputs)
      state->feeds.push_back({input, {}, input.shape, 0, 0, SyntheticData::kSamples});
    state->samples = SyntheticData::kSamples;
  } else {
    std::vector<Field> fields;
    if (!options.fields.empty()) {
      auto parsed = parseFields(options.fields);
      if (!parsed)
        return parsed.status();
      fields = parsed.take();
    }
    auto file = openArrayFile(options.path, options.tokenType);
    if (!file)
      return file.status();
    state->file = file.take();
    AUTOPAR_RETURN_IF_ERROR(state->addFields(options.path, std::move(fields), inputs));
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
  for (const Feed &feed : state->feeds)
    names.push_back(feed.input.name);
  return names;
}

int64_t DataSource::samples() const { return state->samples; }
bool DataSource::isSynthetic() const { return state->synthetic.has_value(); }
int64_t DataSource::unusedTokens() const { return state->unusedTokens; }

Status DataSource::checkValues(int64_t first, int64_t count,
                               std::pair<int32_t, int32_t> share) const {
  for (const Feed &feed : state->feeds) {
    if (!feed.input.limits || state->synthetic)
      continue;
    std::vector<int64_t> row(feed.input.shape.begin() + 1, feed.input.shape.end());
    int64_t rowElements = 1;
    for (int64_t extent : row)
      rowElements *= extent;
    // Once around, every sample is read; then they are looked at as they lie.
    int64_t batch = feed.input.shape[0], positions = std::min(count * batch, state->samples);
    bool isAll = positions == state->samples;
    int64_t begin = positions * share.first / share.second,
            end = positions * (share.first + 1) / share.second;
    for (int64_t position = begin; position < end; ++position) {
      int64_t sample = isAll ? position : state->order->at(first * batch + position);
      auto outside = firstOutside(feed.input.limits, feed.array.dtype, state->rowOf(feed, sample),
                                  rowElements);
      if (outside)
        return Status::badInput("field " + feed.input.name + ", sample " + std::to_string(sample) +
                                " at " + indexText(outside->place, row) + ": " + outside->text);
    }
  }
  return Status::ok();
}

Status DataSource::read(const std::string &input, int64_t step, const Box &box, void *out) const {
  const Feed *feed = state->feedOf(input);
  if (!feed)
    return Status::internal("no field feeds input '" + input + "'");
  int64_t batch = feed->input.shape[0];
  return read(input, {step * batch, batch}, box, out);
}

Status DataSource::read(const std::string &input, SampleRange samples, const Box &box,
                        void *out) const {
  const Feed *feed = state->feedOf(input);
  if (!feed)
    return Status::internal("no field feeds input '" + input + "'");
  int64_t rowElements = 1;
  for (size_t d = 1; d < box.extent.size(); ++d)
    rowElements *= box.extent[d];
  auto *row = static_cast<uint8_t *>(out);
  for (int64_t r = 0; r < box.extent[0]; ++r) {
    int64_t sample = state->order->at(samples.first + (box.offset[0] + r) % samples.count);
    if (state->synthetic)
      state->synthetic->fillRowBox(feed->input, sample, box, row);
    else
      copyRowBox(state->rowOf(*feed, sample), feed->array.dtype, feed->rowShape, box.offset,
                 box.extent, 1, feed->input.dtype, row);
    row += rowElements * byteSize(feed->input.dtype);
  }
  return Status::ok();
}

} // namespace autopar::runtime
