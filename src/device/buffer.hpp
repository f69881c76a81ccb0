// device/buffer.hpp — owned memory, and the arenas that account for it by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "device/view.hpp"

namespace cambium::device {

class Arena;

// 64-byte aligned memory (huge pages where the kernel gives them), zeroed. Move-only; a move leaves
// the source empty.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes, std::shared_ptr<std::size_t> account = nullptr);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] void* data() const {
    return data_;
  }

  [[nodiscard]] std::size_t bytes() const {
    return bytes_;
  }

  // (rows, cols) of `dtype` starting at `offset` bytes. Throws Error(bug) when it does not fit.
  [[nodiscard]] View view(DType dtype, dim_t rows, dim_t cols, std::size_t offset = 0) const;

 private:
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::size_t>
      account_;  // shared: a buffer may outlive its arena's owner during shutdown
};

// A named account: params, grads, optimizer, activations, scratch, communication.
// Throws Error(does_not_fit) when the machine refuses.
class Arena {
 public:
  explicit Arena(std::string name)
      : name_(std::move(name)), live_(std::make_shared<std::size_t>(0)) {}

  [[nodiscard]] Buffer allocate(std::size_t bytes);

  [[nodiscard]] Buffer allocate(DType dtype, dim_t elements) {
    return allocate(static_cast<std::size_t>(elements) * bytes_of(dtype));
  }

  [[nodiscard]] const std::string& name() const {
    return name_;
  }

  [[nodiscard]] std::size_t live_bytes() const {
    return *live_;
  }

  [[nodiscard]] std::size_t peak_bytes() const {
    return peak_;
  }

 private:
  std::string name_;
  std::shared_ptr<std::size_t> live_;
  std::size_t peak_ = 0;
};

}  // namespace cambium::device
