"""Access to S3 through boto3; uploads are completed right before a commit."""
