// SPDX-License-Identifier: Apache-2.0
// Changes to a model that leave it a valid protobuf: other numbers, other names, missing and
// repeated parts.
#include "StructureMutation.h"

#include "autopar-onnx.pb.h"

#include <limits>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {
struct Place {
  Message *message;
  const FieldDescriptor *field;
};

/// Every field that is set, and every string of the model.
void collect(Message &message, std::vector<Place> &places, std::vector<std::string> &strings) {
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    places.push_back({&message, field});
    bool isMessage = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    bool isString = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count && (isMessage || isString); ++i) {
      if (isMessage)
        collect(*(field->is_repeated() ? reflection->MutableRepeatedMessage(&message, field, i)
                                       : reflection->MutableMessage(&message, field)),
                places, strings);
      else
        strings.push_back(field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                               : reflection->GetString(message, field));
    }
  }
}

int64_t oddNumber(std::mt19937_64 &random) {
  constexpr int64_t numbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 7,
                                 9,
                                 11,
                                 16,
                                 -1,
                                 -2,
                                 -3,
                                 64,
                                 1000,
                                 65537,
                                 int64_t(1) << 31,
                                 -(int64_t(1) << 31),
                                 int64_t(1) << 40,
                                 int64_t(1) << 50,
                                 int64_t(1) << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
  return numbers[random() % std::size(numbers)];
}

float oddFloat(std::mt19937_64 &random) {
  constexpr float numbers[] = {0,
                               -0.0f,
                               1,
                               -1,
                               0.5f,
                               2,
                               1e-30f,
                               1e30f,
                               3.5f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  return numbers[random() % std::size(numbers)];
}

std::string otherString(const std::vector<std::string> &strings, std::mt19937_64 &random) {
  static const std::vector<std::string> known = {"Add",
                                                 "Reshape",
                                                 "Slice",
                                                 "Gather",
                                                 "Concat",
                                                 "Loop",
                                                 "If",
                                                 "Scan",
                                                 "Conv",
                                                 "MaxPool",
                                                 "Pad",
                                                 "Resize",
                                                 "TopK",
                                                 "Einsum",
                                                 "LSTM",
                                                 "Transpose",
                                                 "Expand",
                                                 "Tile",
                                                 "Split",
                                                 "Unsqueeze",
                                                 "Squeeze",
                                                 "ScatterND",
                                                 "GatherND",
                                                 "OneHot",
                                                 "Range",
                                                 "ConstantOfShape",
                                                 "Where",
                                                 "CumSum",
                                                 "SequenceAt",
                                                 "SplitToSequence",
                                                 "ConvTranspose",
                                                 "Attention",
                                                 "GridSample",
                                                 "RoiAlign",
                                                 "Unique",
                                                 "NonZero",
                                                 "axis",
                                                 "axes",
                                                 "perm",
                                                 "pads",
                                                 "body",
                                                 "mode",
                                                 "->",
                                                 "ij,jk->ik",
                                                 "...ii->...i",
                                                 "SAME_UPPER",
                                                 "cubic",
                                                 "bidirectional",
                                                 ""};
  if (random() % 3 == 0 || strings.empty())
    return known[random() % known.size()];
  return strings[random() % strings.size()];
}

void changeSingle(const Place &place, const std::vector<std::string> &strings,
                  std::mt19937_64 &random) {
  const Reflection *reflection = place.message->GetReflection();
  if (random() % 4 == 0)
    return reflection->ClearField(place.message, place.field);
  switch (place.field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT64:
    return reflection->SetInt64(place.message, place.field, oddNumber(random));
  case FieldDescriptor::CPPTYPE_INT32:
    return reflection->SetInt32(place.message, place.field, static_cast<int32_t>(random() % 30));
  case FieldDescriptor::CPPTYPE_FLOAT:
    return reflection->SetFloat(place.message, place.field, oddFloat(random));
  case FieldDescriptor::CPPTYPE_ENUM:
    return reflection->SetEnumValue(place.message, place.field, static_cast<int>(random() % 16));
  case FieldDescriptor::CPPTYPE_STRING:
    return reflection->SetString(place.message, place.field, otherString(strings, random));
  default:
    return reflection->ClearField(place.message, place.field);
  }
}

void changeRepeated(const Place &place, const std::vector<std::string> &strings,
                    std::mt19937_64 &random) {
  const Reflection *reflection = place.message->GetReflection();
  int count = reflection->FieldSize(*place.message, place.field),
      at = static_cast<int>(random() % count);
  if (random() % 4 == 0)
    return reflection->RemoveLast(place.message, place.field);
  switch (place.field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT64:
    if (random() % 4 == 0)
      return reflection->AddInt64(place.message, place.field, oddNumber(random));
    return reflection->SetRepeatedInt64(place.message, place.field, at, oddNumber(random));
  case FieldDescriptor::CPPTYPE_FLOAT:
    return reflection->SetRepeatedFloat(place.message, place.field, at, oddFloat(random));
  case FieldDescriptor::CPPTYPE_STRING:
    if (random() % 4 == 0)
      return reflection->AddString(place.message, place.field, otherString(strings, random));
    return reflection->SetRepeatedString(place.message, place.field, at,
                                         otherString(strings, random));
  case FieldDescriptor::CPPTYPE_MESSAGE:
    if (random() % 2)
      return reflection->SwapElements(place.message, place.field, at,
                                      static_cast<int>(random() % count));
    reflection->AddMessage(place.message, place.field)
        ->CopyFrom(reflection->GetRepeatedMessage(*place.message, place.field, at));
    return;
  default:
    return reflection->RemoveLast(place.message, place.field);
  }
}
} // namespace

std::string autopar::test::mutateStructure(const std::string &bytes, std::mt19937_64 &random) {
  ::autopar_onnx::ModelProto model;
  if (!model.ParseFromString(bytes))
    return bytes;
  for (size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
    std::vector<Place> places;
    std::vector<std::string> strings;
    collect(model, places, strings);
    if (places.empty())
      break;
    const Place &place = places[random() % places.size()];
    if (place.field->is_repeated())
      changeRepeated(place, strings, random);
    else
      changeSingle(place, strings, random);
  }
  return model.SerializeAsString();
}
