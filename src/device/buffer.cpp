// SPDX-License-Identifier: Apache-2.0
#include "device/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace cambium::device {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Buffer::Buffer(std::size_t bytes, std::shared_ptr<std::size_t> account)
    : bytes_(bytes), account_(std::move(account)) {
  if (bytes == 0) {
    return;
  }
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  data_ = std::aligned_alloc(alignment, padded);
  if (data_ == nullptr) {
    bytes_ = 0;
    throw std::bad_alloc();
  }
  if (alignment == kHugePage) {
    ::madvise(data_, padded, MADV_HUGEPAGE);  // advice only: failure costs speed, not correctness
  }
  std::memset(data_, 0, padded);
  if (account_) {
    *account_ += bytes_;
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      account_(std::move(other.account_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    account_ = std::move(other.account_);
  }
  return *this;
}

Buffer::~Buffer() {
  release();
}

void Buffer::release() noexcept {
  if (data_ != nullptr) {
    std::free(data_);
    if (account_) {
      *account_ -= bytes_;
    }
  }
  data_ = nullptr;
  bytes_ = 0;
  account_.reset();
}

View Buffer::view(DType dtype, dim_t rows, dim_t cols, std::size_t offset) const {
  CAMBIUM_CHECK(offset + static_cast<std::size_t>(rows * cols) * bytes_of(dtype) <= bytes_,
                "a view past its buffer");
  return {static_cast<char*>(data_) + offset, rows, cols, cols, dtype};
}

Buffer Arena::allocate(std::size_t bytes) {
  try {
    Buffer buffer(bytes, live_);
    peak_ = std::max(peak_, *live_);
    return buffer;
  } catch (const std::bad_alloc&) {
    throw Error(Code::does_not_fit,
                "arena " + name_ + ": cannot allocate " + std::to_string(bytes) + " bytes beside " +
                    std::to_string(*live_) +
                    " in use; use more ranks or a smaller micro_batch_size");
  }
}

}  // namespace cambium::device
