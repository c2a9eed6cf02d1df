// SPDX-License-Identifier: Apache-2.0
// An index is a JSON object whose "weight_map" gives the file of each tensor, next to the index.
#include "WeightFiles.h"

#include <nlohmann/json.hpp>
#include <set>

namespace autopar::runtime {
namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

bool WeightFiles::isMeant(const std::string &path) {
  return endsWith(path, ".safetensors") || endsWith(path, ".json");
}

Status WeightFiles::add(const std::string &file) {
  auto mapped = MappedFile::open(file);
  if (!mapped)
    return mapped.status();
  auto entries = readSafetensors((*mapped)->data(), (*mapped)->size());
  if (!entries)
    return entries.status().at(file);
  for (const auto &[name, entry] : *entries)
    tensors[name] = {entry, (*mapped)->data() + entry.begin};
  files.push_back(mapped.take());
  return Status::ok();
}

Result<std::shared_ptr<const WeightFiles>> WeightFiles::open(const std::string &path) {
  auto weights = std::make_shared<WeightFiles>();
  weights->path = path;
  if (!endsWith(path, ".json")) {
    AUTOPAR_RETURN_IF_ERROR(weights->add(path));
    return std::shared_ptr<const WeightFiles>(weights);
  }
  auto mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.status();
  auto json = nlohmann::json::parse((*mapped)->data(), (*mapped)->data() + (*mapped)->size(),
                                    nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return Status::badInput(path + ": expected a JSON object with \"weight_map\", which names the "
                                   "file of each tensor");
  std::set<std::string> names;
  for (const auto &[tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      return Status::badInput(path + ": the file of " + tensor + " is no text");
    names.insert(file.get<std::string>());
  }
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  for (const std::string &name : names)
    AUTOPAR_RETURN_IF_ERROR(weights->add(folder + name));
  return std::shared_ptr<const WeightFiles>(weights);
}

const WeightFiles::Tensor *WeightFiles::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

std::string WeightFiles::describe() const {
  constexpr size_t shown = 5;
  std::string text = path + " has " + std::to_string(tensors.size()) + " tensors: ";
  size_t count = 0;
  for (const auto &[name, tensor] : tensors) {
    text += (count ? ", " : "") + (count < shown ? name : "...");
    if (count++ == shown)
      break;
  }
  return text;
}

} // namespace autopar::runtime
