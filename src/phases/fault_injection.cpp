// SPDX-License-Identifier: Apache-2.0
#include "phases/fault_injection.hpp"

#include <charconv>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <thread>
#include <unistd.h>

#include "base/error.hpp"

namespace cambium::phases {
namespace {

const std::map<std::string, FaultKind>& kinds() {
  static const std::map<std::string, FaultKind> all = {{"throw", FaultKind::throw_error},
                                                       {"exit", FaultKind::exit},
                                                       {"kill", FaultKind::kill},
                                                       {"kill_all", FaultKind::kill_all},
                                                       {"hang", FaultKind::hang},
                                                       {"nan", FaultKind::nan},
                                                       {"inf", FaultKind::inf},
                                                       {"spike", FaultKind::spike},
                                                       {"fail", FaultKind::fail},
                                                       {"slow", FaultKind::slow}};
  return all;
}

dim_t number(const std::string& text, const std::string& whole) {
  dim_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) {
    throw Error(Code::usage, "--inject " + whole + ": \"" + text + "\" is no number");
  }
  return value;
}

}  // namespace

void FaultInjection::add(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto kind = kinds().find(text.substr(0, colon));
  if (kind == kinds().end() || colon == std::string::npos) {
    throw Error(
        Code::usage,
        "--inject " + text +
            ": expected KIND:point=P[,rank=R][,step=S][,count=N][,after=N], KIND one of throw "
            "exit kill kill_all hang nan inf spike fail slow");
  }
  Fault fault{.kind = kind->second};
  std::size_t at = colon + 1;
  while (at < text.size()) {
    std::size_t end = text.find(',', at);
    end = end == std::string::npos ? text.size() : end;
    const std::string item = text.substr(at, end - at);
    const std::size_t equal = item.find('=');
    const std::string key = item.substr(0, equal);
    const std::string value = equal == std::string::npos ? "" : item.substr(equal + 1);
    if (key == "point") {
      fault.point = value;
    } else if (key == "rank") {
      fault.rank = static_cast<int>(number(value, text));
    } else if (key == "step") {
      fault.step = number(value, text);
    } else if (key == "count") {
      fault.count = number(value, text);
    } else if (key == "after") {
      fault.after = number(value, text);
    } else {
      throw Error(Code::usage, "--inject " + text + ": unknown key \"" + key + "\"");
    }
    at = end + 1;
  }
  if (fault.point.empty()) {  // it would never fire, and a test of it would pass for nothing
    throw Error(Code::usage,
                "--inject " + text +
                    ": no point; expected KIND:point=P[,rank=R][,step=S][,count=N][,after=N]");
  }
  faults_.push_back(fault);
}

bool FaultInjection::is_due(Fault& fault, const char* point) const {
  if (fault.point != point || (fault.rank >= 0 && fault.rank != rank_) ||
      (fault.step >= 0 && fault.step != step_)) {
    return false;
  }
  if (fault.after > 0) {
    --fault.after;
    return false;
  }
  return fault.count-- > 0;
}

// Outside of the lock: a thread that hangs must not hold up the others.
std::optional<double> FaultInjection::pass(const char* point) {
  if (faults_.empty()) {
    return std::nullopt;
  }
  std::vector<FaultKind> due;
  dim_t step = 0;
  {
    const std::lock_guard lock(*mutex_);
    step = step_;
    for (Fault& fault : faults_) {
      if (is_due(fault, point)) {
        due.push_back(fault.kind);
      }
    }
  }
  std::optional<double> factor;
  for (const FaultKind kind : due) {
    const std::optional<double> own = carry_out(kind, point, step);
    factor = own ? own : factor;
  }
  return factor;
}

std::optional<double> FaultInjection::carry_out(FaultKind kind, const char* point, dim_t step) {
  switch (kind) {
    case FaultKind::throw_error:
    case FaultKind::fail:
      throw Error(Code::bug, fmt::format("injected failure at {} in step {}", point, step));
    case FaultKind::exit:
      ::_exit(0);
    case FaultKind::kill:
      ::kill(::getpid(), SIGKILL);
      break;
    case FaultKind::kill_all: {
      // mpirun's ranks are children of one daemon: the launcher itself is what a scheduler kills.
      ::kill(::getppid(), SIGKILL);
      ::kill(::getpid(), SIGKILL);
      break;
    }
    case FaultKind::hang:
      for (;;) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
    case FaultKind::slow:
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      break;
    case FaultKind::nan:
      return std::numeric_limits<double>::quiet_NaN();
    case FaultKind::inf:
      return std::numeric_limits<double>::infinity();
    case FaultKind::spike:
      return 1000;
  }
  return std::nullopt;
}

}  // namespace cambium::phases
