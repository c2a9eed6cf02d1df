// SPDX-License-Identifier: Apache-2.0
// Errors as values for the plain C++ rooms: a code from the documented exit table, a message that
// names the thing, and a Result that carries either a value or the Status. No exceptions cross a
// room's border.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace autopar {

/// What went wrong, in the classes a caller may act on. The numeric value is the process exit code
/// that a command ends with (sysexits style, listed in docs/ExitCodes.md).
enum class StatusCode : int {
  Ok = 0,
  Usage = 2,         ///< the command line is wrong
  BadInput = 65,     ///< a file or value is malformed, or a plan does not fit
  NoInput = 66,      ///< a file does not exist or cannot be read
  NoDevice = 69,     ///< a device or library that the plan wants is missing
  Internal = 70,     ///< our own fault
  CannotCreate = 73, ///< an output cannot be created
  IoError = 74,      ///< reading or writing failed midway
  PeerLost = 75,     ///< another rank died or is stuck; restarting may help
  NoPermission = 77, ///< the system refused
  Mismatch = 78,     ///< ranks, artifact or machine do not fit each other
};

/// A code and, unless Ok, a message in lower case without a final period.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {}

  static Status ok() { return {}; }
  static Status badInput(std::string message) { return {StatusCode::BadInput, std::move(message)}; }
  static Status noInput(std::string message) { return {StatusCode::NoInput, std::move(message)}; }
  static Status internal(std::string message) { return {StatusCode::Internal, std::move(message)}; }
  static Status mismatch(std::string message) { return {StatusCode::Mismatch, std::move(message)}; }
  static Status ioError(std::string message) { return {StatusCode::IoError, std::move(message)}; }
  static Status peerLost(std::string message) { return {StatusCode::PeerLost, std::move(message)}; }

  bool isOk() const { return statusCode == StatusCode::Ok; }
  StatusCode code() const { return statusCode; }
  const std::string &message() const { return text; }
  int exitCode() const { return static_cast<int>(statusCode); }

  /// The same status with `where` and a colon in front of the message; Ok stays Ok.
  Status at(const std::string &where) const;

private:
  StatusCode statusCode = StatusCode::Ok;
  std::string text;
};

/// Either a value or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status status) : why(std::move(status)) {}

  bool isOk() const { return held.has_value(); }
  explicit operator bool() const { return isOk(); }
  const Status &status() const { return why; }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }
  T take() { return std::move(*held); }

private:
  std::optional<T> held;
  Status why;
};

} // namespace autopar

/// Leaves the calling function when `expression` is a Status that is not Ok.
#define AUTOPAR_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                             \
    if (::autopar::Status autoparStatus = (expression); !autoparStatus.isOk())                     \
      return autoparStatus;                                                                        \
  } while (false)
