// SPDX-License-Identifier: Apache-2.0
// The index as JSON.
#include "CheckpointIndex.h"

#include "../data/MappedFile.h"
#include "CheckpointFolders.h"
#include "autopar/Artifact/Verify.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

namespace autopar::runtime {
namespace {

using nlohmann::json;

constexpr const char *kKind = "autopar.checkpoint";
constexpr int kVersion = 1;

json toValue(const CheckpointIndex &index) {
  json tensors = json::object();
  for (const auto &[tensorName, tensor] : index.tensors) {
    json pieces = json::array();
    for (const CheckpointPiece &piece : tensor.pieces)
      pieces.push_back({{"file", piece.file},
                        {"tensor", piece.entry},
                        {"offset", piece.box.offset},
                        {"extent", piece.box.extent},
                        {"begin", piece.begin},
                        {"digest", piece.digest.hex()}});
    tensors[tensorName] = {
        {"dtype", name(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
  }
  return {{"kind", kKind},
          {"version", kVersion},
          {"step", index.info.step},
          {"skipped_steps", index.skippedSteps},
          {"notes", index.info.notes},
          {"world_size", index.worldSize},
          {"files", index.fileBytes},
          {"tensors", tensors}};
}

Digest digestFromHex(const std::string &hex) {
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size() && 2 * i + 1 < hex.size(); ++i)
    digest.bytes[i] = uint8_t(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return digest;
}

/// As many as autopar-run runs.
constexpr int64_t kMostSteps = int64_t{1} << 40;

/// Throws what nlohmann throws; the caller turns that into a Status.
CheckpointIndex fromValue(const json &value) {
  CheckpointIndex index;
  index.info.step = value.at("step").get<int64_t>();
  if (index.info.step < 0 || index.info.step > kMostSteps)
    throw std::invalid_argument("a step is a number from 0 to 2^40");
  index.skippedSteps = value.value("skipped_steps", int64_t{0});
  if (index.skippedSteps < 0 || index.skippedSteps > kMostSteps)
    throw std::invalid_argument("skipped_steps is a number from 0 to 2^40");
  index.info.notes = value.at("notes").get<std::map<std::string, std::string>>();
  index.worldSize = value.at("world_size").get<int32_t>();
  index.fileBytes = value.at("files").get<std::map<std::string, int64_t>>();
  for (const auto &[tensorName, item] : value.at("tensors").items()) {
    CheckpointTensor tensor;
    auto dtype = dataTypeFromName(item.at("dtype").get<std::string>());
    if (!dtype)
      throw std::invalid_argument("unknown dtype");
    tensor.dtype = *dtype;
    tensor.shape = item.at("shape").get<std::vector<int64_t>>();
    for (const json &piece : item.at("pieces"))
      tensor.pieces.push_back({piece.at("file").get<std::string>(),
                               piece.at("tensor").get<std::string>(),
                               {piece.at("offset").get<std::vector<int64_t>>(),
                                piece.at("extent").get<std::vector<int64_t>>()},
                               piece.at("begin").get<int64_t>(),
                               digestFromHex(piece.at("digest").get<std::string>())});
    index.tensors[tensorName] = std::move(tensor);
  }
  return index;
}

/// Deeper than anything of an index. A value is written and copied by recursion, which a file that
/// was overwritten must not drive as deep as it likes.
constexpr int kMostDepth = 16;

Status verifyPiece(const CheckpointTensor &tensor, const CheckpointPiece &piece,
                   const MappedFile &file) {
  bool fits = piece.box.offset.size() == tensor.shape.size() &&
              piece.box.extent.size() == tensor.shape.size();
  for (size_t d = 0; fits && d < tensor.shape.size(); ++d)
    fits = piece.box.offset[d] >= 0 && piece.box.extent[d] >= 0 &&
           piece.box.extent[d] <= tensor.shape[d] - piece.box.offset[d];
  auto bytes = fits ? artifact::checkedBytes(piece.box.extent, tensor.dtype) : std::nullopt;
  if (!bytes || piece.begin < 0 || uint64_t(piece.begin) > file.size() ||
      uint64_t(*bytes) > file.size() - uint64_t(piece.begin))
    return Status::badInput("the box of " + piece.entry + " does not fit the tensor or the file");
  if (Digest::of(file.data() + piece.begin, size_t(*bytes)) != piece.digest)
    return Status::badInput("the bytes of " + piece.entry + " have changed");
  return Status::ok();
}

} // namespace

std::string checkpointName(int64_t step) {
  std::string number = std::to_string(step);
  return "step-" + std::string(number.size() < 8 ? 8 - number.size() : 0, '0') + number;
}

/// Whether it is what checkpointName() gives for some step.
static bool isCheckpointName(const std::string &name) {
  int64_t step = 0;
  const char *end = name.data() + name.size();
  if (!name.starts_with("step-") ||
      std::from_chars(name.data() + std::strlen("step-"), end, step).ec != std::errc())
    return false;
  return step >= 0 && checkpointName(step) == name;
}

std::vector<std::string> checkpointsIn(const std::string &folder) {
  std::vector<std::string> names = listFolder(folder);
  std::erase_if(names, [](const std::string &name) { return !isCheckpointName(name); });
  // Numbers of more digits than others are larger.
  std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return names;
}

std::string CheckpointIndex::toJson() const {
  json value = toValue(*this);
  std::string text = value.dump();
  value["digest"] = Digest::of(text.data(), text.size()).hex();
  return value.dump(1);
}

Result<CheckpointIndex> CheckpointIndex::fromJson(const std::string &text) {
  bool isShallow = true;
  auto stopsDeep = [&](int depth, json::parse_event_t, json &) {
    isShallow = isShallow && depth <= kMostDepth;
    return isShallow;
  };
  json value = json::parse(text, stopsDeep, /*allow_exceptions=*/false);
  if (!isShallow || !value.is_object())
    return Status::badInput("expected a JSON object; it was cut off or overwritten");
  json kind = value["kind"], version = value["version"], digest = value["digest"];
  if (kind != kKind || version != kVersion)
    return Status::badInput("expected kind " + std::string(kKind) + ", version " +
                            std::to_string(kVersion) + ", found kind " + kind.dump() +
                            ", version " + version.dump());
  value.erase("digest");
  std::string rest = value.dump();
  if (digest != Digest::of(rest.data(), rest.size()).hex())
    return Status::badInput("its digest does not fit: it was changed");
  try {
    return fromValue(value);
  } catch (const std::exception &) { // what autopar-run wrote has all of them
    return Status::badInput("its digest fits, but its entries are not those of a checkpoint: "
                            "another program wrote it");
  }
}

std::string CheckpointIndex::partToJson(const CheckpointIndex &part) {
  return toValue(part).dump();
}

Status CheckpointIndex::addPart(const std::string &text) {
  try {
    CheckpointIndex part = fromValue(json::parse(text));
    fileBytes.merge(part.fileBytes);
    for (auto &[tensorName, tensor] : part.tensors) {
      CheckpointTensor &all = tensors[tensorName];
      all.dtype = tensor.dtype;
      all.shape = tensor.shape;
      all.pieces.insert(all.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    return Status::ok();
  } catch (const std::exception &error) {
    return Status::internal(std::string("the part of a rank cannot be read: ") + error.what());
  }
}

Status CheckpointIndex::verifyFiles(const std::string &path) const {
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  for (const auto &[file, bytes] : fileBytes) {
    if (file.find('/') != std::string::npos)
      return Status::badInput(path + ": file name " + file + " leads out of the checkpoint");
    auto mapped = MappedFile::open(path + "/" + file);
    if (!mapped)
      return mapped.status();
    if (int64_t((*mapped)->size()) != bytes)
      return Status::badInput(path + "/" + file + ": " + std::to_string((*mapped)->size()) +
                              " bytes, expected " + std::to_string(bytes));
    files[file] = mapped.take();
  }
  for (const auto &[tensorName, tensor] : tensors) {
    auto left = artifact::checkedBytes(tensor.shape, tensor.dtype);
    if (!left)
      return Status::badInput(path + ": the shape of " + tensorName + " is negative or too large");
    for (const CheckpointPiece &piece : tensor.pieces) {
      auto file = files.find(piece.file);
      if (file == files.end())
        return Status::badInput(path + ": tensor " + tensorName + " lies in " + piece.file +
                                ", which the index does not list");
      if (Status status = verifyPiece(tensor, piece, *file->second); !status.isOk())
        return status.at(path + "/" + piece.file);
      left = *left - *artifact::checkedBytes(piece.box.extent, tensor.dtype);
    }
    if (*left != 0)
      return Status::badInput(path + ": the pieces of " + tensorName + " do not fill it");
  }
  return Status::ok();
}

} // namespace autopar::runtime
