package niclab.storm;

/** Wrong arguments or input: says what is wrong, where, and what is allowed. */
final class UsageException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UsageException(String message) {
        super(message);
    }
}
