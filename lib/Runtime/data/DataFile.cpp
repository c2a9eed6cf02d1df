// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DataFile.h"

#include "RowCopy.h"
#include "autopar/Base/ShapeText.h"

#include <algorithm>

namespace autopar::runtime {

static std::string arrayText(const ArrayFile &file) {
  std::string text;
  for (const auto &[arrayName, view] : file.arrays)
    text += (text.empty() ? "" : ", ") + arrayName + ": " + std::string(name(view.dtype)) + " " +
            shapeText(view.shape);
  return text.empty() ? "no arrays" : text;
}

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

Result<DataFile> DataFile::open(const std::string &path, DataType tokenType,
                                std::vector<Field> fields, const std::vector<TensorSpec> &inputs) {
  auto arrays = openArrayFile(path, tokenType);
  if (!arrays)
    return arrays.status();
  DataFile opened;
  opened.name = path;
  opened.file = arrays.take();
  AUTOPAR_RETURN_IF_ERROR(opened.addFields(std::move(fields), inputs));
  return opened;
}

Status DataFile::addFields(std::vector<Field> fields, const std::vector<TensorSpec> &inputs) {
  if (fields.empty())
    fields = fieldsByName(file, inputs);
  if (fields.empty())
    return Status::badInput(name + " has " + arrayText(file) + "; the inputs are " +
                            describe(inputs) +
                            "; say with --fields which array feeds which input, for example "
                            "\"input_ids=tokens[:-1], labels=tokens[1:]\"");
  for (const Field &field : fields)
    if (Status status = addField(field, inputs); !status.isOk())
      return status.at(name + ": field " + field.input);
  if (Status status = placeWindows(fields); !status.isOk())
    return status.at(name);
  for (const Feed &feed : fed)
    if (feed.samples != samples())
      return Status::badInput(name + ": " + fed.front().input.name + " has " +
                              std::to_string(samples()) + " samples, " + feed.input.name + " has " +
                              std::to_string(feed.samples));
  return Status::ok();
}

Status DataFile::addField(const Field &field, const std::vector<TensorSpec> &inputs) {
  auto input = std::find_if(inputs.begin(), inputs.end(),
                            [&](const TensorSpec &spec) { return spec.name == field.input; });
  if (input == inputs.end())
    return Status::badInput("there is no such input; the inputs are " + describe(inputs));
  if (std::any_of(fed.begin(), fed.end(),
                  [&](const Feed &feed) { return feed.input.name == field.input; }))
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
                            std::string(autopar::name(feed.array.dtype)) + ", the input wants " +
                            std::string(autopar::name(feed.input.dtype)));
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
  fed.push_back(std::move(feed));
  return Status::ok();
}

Status DataFile::placeRow(const Field &field, Feed &feed) {
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
Status DataFile::placeWindows(const std::vector<Field> &fields) {
  int64_t window = 0, stride = 0;
  const Feed *first = nullptr;
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].isWindow) {
      int64_t length = fed[i].input.shape[1];
      int64_t own = fields[i].dropFirst + length + fields[i].dropLast;
      if (first && own != window)
        return Status::badInput("the part of " + fed[i].input.name + " means windows of " +
                                std::to_string(own) + " tokens, that of " + first->input.name +
                                " windows of " + std::to_string(window));
      first = &fed[i];
      window = own;
      stride = std::max(stride, length);
    }
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].isWindow) {
      Feed &feed = fed[i];
      int64_t tokens = feed.array.shape[0];
      if (tokens < window)
        return Status::badInput("too short: " + std::to_string(tokens) +
                                " tokens, one sample takes " + std::to_string(window));
      feed.stride = stride;
      feed.start = fields[i].dropFirst;
      feed.samples = (tokens - window) / stride + 1;
      unused = tokens - (feed.samples - 1) * stride - window;
    }
  return Status::ok();
}

} // namespace autopar::runtime
