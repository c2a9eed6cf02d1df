// SPDX-License-Identifier: Apache-2.0
// An index is a JSON object whose "weight_map" gives the file of each tensor, next to the index.
#include "autopar/Runtime/WeightFiles.h"

#include "../data/MappedFile.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>

namespace autopar::runtime {
bool WeightFiles::isMeant(const std::string &path) {
  return path.ends_with(".safetensors") || path.ends_with(".json");
}

Status WeightFiles::add(const std::string &file,
                        const std::function<bool(const std::string &)> &isWanted) {
  auto mapped = MappedFile::open(file);
  if (!mapped)
    return mapped.status();
  struct stat info {};
  if (stat(file.c_str(), &info) == 0)
    version += std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" +
               std::to_string(info.st_size) + ":" + std::to_string(info.st_mtim.tv_sec) + "." +
               std::to_string(info.st_mtim.tv_nsec) + " ";
  auto entries = readSafetensors((*mapped)->data(), (*mapped)->size());
  if (!entries)
    return entries.status().at(file);
  for (const auto &[name, entry] : *entries)
    if (isWanted(name))
      tensors[name] = {entry, (*mapped)->data() + entry.begin};
  files.push_back(mapped.take());
  return Status::ok();
}

Result<std::shared_ptr<const WeightFiles>> WeightFiles::open(const std::string &path) {
  auto weights = std::make_shared<WeightFiles>();
  weights->path = path;
  if (!path.ends_with(".json")) {
    AUTOPAR_RETURN_IF_ERROR(weights->add(path, [](const std::string &) { return true; }));
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
  std::map<std::string, std::set<std::string>> wanted; // by file
  for (const auto &[tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      return Status::badInput(path + ": the file of " + tensor + " is no text");
    wanted[file.get<std::string>()].insert(tensor);
  }
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  for (const auto &[name, tensors] : wanted) {
    AUTOPAR_RETURN_IF_ERROR(weights->add(
        folder + name, [&](const std::string &tensor) { return tensors.count(tensor) > 0; }));
    for (const std::string &tensor : tensors)
      if (!weights->find(tensor))
        return Status::badInput(path + " says that " + tensor + " is in " + name +
                                ", which has no tensor of that name; give the files that belong to "
                                "the index");
  }
  return std::shared_ptr<const WeightFiles>(weights);
}

const WeightFiles::Tensor *WeightFiles::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> result;
  for (const auto &[name, tensor] : tensors)
    result.push_back(name);
  return result;
}

} // namespace autopar::runtime
